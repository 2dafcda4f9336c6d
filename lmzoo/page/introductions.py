"""What stands at the top of each tab."""

SURPRISAL = (
    "How surprised is each model by each word, having read those before it? The stronger its colour, the more bits, "
    "−log₂ p, below it. Point at a word to see what was expected in its place. Write two lines to compare them."
)
NEXT_WORDS = (
    "Which word comes next? Type, and watch the bars move; while a word is unfinished, they are those that begin like "
    "it. A click on a word types it."
)
GENERATION = (
    "A model draws a text word by word. Its colours are its own surprisal. A lower temperature, top-k and top-p leave "
    "out what is unlikely; the same seed draws the same text."
)
STATES = (
    "Behind each word is a hidden state. Having read up to a word, the model believes in some states; later words make "
    "it change its mind. Move the slider to see at which."
)
GAPS = (
    "An HMM knows what stands in a gap, exactly, from the words on both sides. Write ___ for a word, [a|b] for one of "
    "several, one … for any number of words, and watch the bars of every gap change with each word elsewhere."
)
VECTORS = "Words that occur in like surroundings have like vectors: neighbours by cosine, and analogies."
