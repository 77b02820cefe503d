"""The version of this SDK, sent to the node in the answer to hello."""

VERSION = "0.1.0"
PROTOCOL = 1
