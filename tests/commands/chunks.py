"""A chunked text and its held-out part, with the options that name their files."""

TRAIN = "the D B-NP\nwalk N I-NP\nends V B-VP\n\nthey P B-NP\nwalk V B-VP\n\n"
TEST = "they P B-NP\nwalk V B-VP\n\n\nthe D B-NP\ncat N I-NP\n"
FILES = ["task.train=train.txt", "task.test=test.txt"]
