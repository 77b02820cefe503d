package messages

import "strings"

// Alternatives joins the words that a value may be, for a sentence: "a, b or c".
func Alternatives[T ~string](words []T) string {
	var text strings.Builder
	for i, word := range words {
		switch {
		case i > 0 && i == len(words)-1:
			text.WriteString(" or ")
		case i > 0:
			text.WriteString(", ")
		}
		text.WriteString(string(word))
	}
	return text.String()
}
