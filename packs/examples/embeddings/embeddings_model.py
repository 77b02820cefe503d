"""A small text model: weighted character n-grams, learnt from a few hundred pages of English when it is built.

Building it takes about half a second, which stands for the load of a real model: worth doing once per process and never
once per request. It uses the standard library only; the pages are those that Python's own help() shows.
"""

import math
import re
from collections import Counter

SIZES = (2, 3, 4, 5, 6)  # characters of a gram
_words = re.compile(r"[a-z0-9]+")


def grams(text):
    """Return the n-grams of a text's words, each word with a mark at both ends."""
    found = []
    for word in _words.findall(text.lower()):
        word = "<" + word + ">"
        for size in SIZES:
            if len(word) <= size:
                found.append(word)
                break
            found.extend(word[start:start + size] for start in range(len(word) - size + 1))
    return found


class Model:
    """Turns texts into vectors. It learns the weights of grams from ``pages``."""

    def __init__(self, pages):
        seen = Counter()
        count = 0
        for page in pages:
            seen.update(set(grams(page)))
            count += 1
        self._rare = math.log(count + 1) + 1  # weight of a gram that no page has
        self._weights = {gram: math.log((count + 1) / (pages_with + 1)) + 1 for gram, pages_with in seen.items()}

    def vector(self, text):
        """Return the text's vector as {gram: weight}, of length 1; a text without words has an empty one."""
        counts = Counter(grams(text))
        raw = {gram: (1 + math.log(n)) * self._weights.get(gram, self._rare) for gram, n in counts.items()}
        length = math.sqrt(sum(weight * weight for weight in raw.values()))
        return {gram: weight / length for gram, weight in raw.items()}


def cosine(a, b):
    """Return the similarity of two vectors, from 0 to 1."""
    if len(b) < len(a):
        a, b = b, a
    return sum(weight * b[gram] for gram, weight in a.items() if gram in b)


def build():
    """Build the model from Python's help pages."""
    from pydoc_data import topics

    return Model(topics.topics.values())
