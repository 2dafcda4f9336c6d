"""n-gram models from dictionaries of tuples, written from the definitions; slow, and without any code of lmzoo."""

from collections import Counter

BOS, EOS = "<s>", "</s>"


def sentences(tokens: list[int]) -> list[list]:
    """A stream in which 0 ends each line -> its lines <s> … </s>."""
    lines, line = [], [BOS]
    for token in tokens:
        line.append(EOS if token == 0 else token)
        if token == 0:
            lines.append(line)
            line = [BOS]
    return lines


def kenlm_statistics(tokens: list[int], order: int) -> list[Counter]:
    """t_k of each order from KenLM's stream of sorted, padded n-grams; the last n-gram has its raw count."""
    number = {BOS: 1, EOS: 2}
    full = Counter()
    for line in sentences(tokens):
        for word in line:
            number.setdefault(word, len(number) + 1)
        padded = [BOS] * (order - 2) + line if order > 1 else line[1:]
        full.update(tuple(padded[i : i + order]) for i in range(len(padded) - order + 1))
    full = {gram: count for gram, count in full.items() if gram[-1] != BOS}
    last = max(full, key=lambda gram: [number[word] for word in reversed(gram)])
    t = []
    for n in range(1, order):
        grams = {gram[-n:] for gram in full if BOS not in gram[order - n + 1 :]}
        seen = Counter()
        for gram in grams:
            matching = {longer: count for longer, count in full.items() if longer[-n:] == gram}
            raw = sum(matching.values())
            adjusted = raw if gram[0] == BOS else len({longer[-n - 1] for longer in matching})
            seen[raw if gram == last[-n:] else adjusted] += 1
        t.append(seen)
    t.append(Counter(count for gram, count in full.items() if BOS not in gram[1:]))
    return t


class Oracle:
    """p(word | history) of the last N - 1 words, by the equations of `lmzoo.models.ngram.smoothing`."""

    def __init__(
        self, tokens, types, order, smoothing, interpolated, interpolate_unigrams, pseudocount, discounts, prune
    ):
        self.types, self.order, self.smoothing = types, order, smoothing
        self.interpolated, self.interpolate_unigrams, self.pseudocount = interpolated, interpolate_unigrams, pseudocount
        self.discounts = discounts
        raw = Counter()
        for line in sentences(tokens):
            for n in range(1, order + 1):
                raw.update(tuple(line[i : i + n]) for i in range(len(line) - n + 1))
        del raw[BOS,]
        self.counts = dict(raw)
        if smoothing.endswith("kneser_ney"):
            for gram in raw:
                if len(gram) < order and gram[0] != BOS:
                    self.counts[gram] = len({longer[0] for longer in raw if longer[1:] == gram})
        self.dropped = {gram for gram, count in raw.items() if count <= prune[min(len(gram), len(prune)) - 1]}
        self.followers: dict[tuple, list] = {}
        for gram in raw:
            self.followers.setdefault(gram[:-1], []).append(gram[-1])

    def discount(self, gram: tuple) -> float:
        if gram in self.dropped:
            return self.counts[gram]
        return self.discounts[len(gram) - 1][min(self.counts[gram], 3) - 1]

    def probability(self, word, history: tuple) -> float:
        if history and history not in self.followers:
            return self.probability(word, history[1:])
        lidstone = self.smoothing == "additive" and not self.interpolated
        if lidstone and len(history) < self.order - 1 and history[:1] != (BOS,):
            return 1 / self.types
        followers = [(*history, x) for x in self.followers[history]]
        gram = (*history, word)
        extra = {"additive": self.pseudocount * self.types, "witten_bell": len(followers)}.get(self.smoothing, 0)
        total = sum(self.counts[x] for x in followers) + extra
        u = {x: (self.counts[x] - self.discount(x)) / total for x in followers}
        gamma = (sum(self.discount(x) for x in followers) + extra) / total
        if not history:
            unseen = self.types - len(followers)
            if not self.interpolate_unigrams and unseen:
                return u[gram] if gram in u else gamma / unseen
            return u.get(gram, 0) + gamma / self.types
        if lidstone:
            return u.get(gram, 0) + gamma / self.types
        if self.interpolated or self.smoothing == "additive":
            return u.get(gram, 0) + gamma * self.probability(word, history[1:])
        seen = [x for x in followers if u[x] > 0]
        free = 1 - sum(self.probability(x[-1], x[1:-1]) for x in seen)
        if free < 1e-12:
            return u.get(gram, 0) / (1 - gamma)
        if u.get(gram, 0) > 0:
            return u[gram]
        return gamma / free * self.probability(word, history[1:])
