package failures

import "strings"

// messageMax is how much of a message is compared, in bytes.
const messageMax = 300

// idLeast is how long a word of hexadecimal digits is that is taken for an id.
const idLeast = 8

// Normal is a message without what differs between failures of one cause: a quoted text becomes ‹text›, an id ‹id› and a number ‹n›. It
// reads the text once, since thousands are read for one answer.
func Normal(message string) string {
	if len(message) > messageMax {
		message = message[:messageMax]
	}
	message = strings.Join(strings.Fields(strings.ToValidUTF8(message, "")), " ")
	var b strings.Builder
	for i := 0; i < len(message); {
		rest := message[i:]
		switch n, made := part(rest, i > 0 && isWord(message[i-1])); {
		case n > 0:
			b.WriteString(made)
			i += n
		default:
			b.WriteByte(rest[0])
			i++
		}
	}
	return b.String()
}

// part is what a text begins with, how long that is and what becomes of it; 0: a character that stays. Within: it begins within a word.
func part(text string, within bool) (n int, made string) {
	c := text[0]
	if c == '"' || c == '`' || c == '\'' && !within {
		if end := strings.IndexByte(text[1:], c); end >= 0 {
			return end + 2, "‹text›"
		}
		return 0, ""
	}
	if !isWord(c) || within {
		return 0, ""
	}
	word := text[:run(text, isWord)]
	if isID(word) {
		n = len(word)
		for n+1 < len(text) && text[n] == '-' { // the parts of a UUID
			more := run(text[n+1:], isHex)
			if more < 4 {
				break
			}
			n += 1 + more
		}
		return n, "‹id›"
	}
	return numbers(text, len(word))
}

// numbers is a word, or a number that goes on behind it as 10.0.0.7 does, with its digits replaced.
func numbers(text string, length int) (int, string) {
	var b strings.Builder
	i := 0
	for i < length {
		digits := run(text[i:], isDigit)
		if digits == 0 {
			b.WriteByte(text[i])
			i++
			continue
		}
		i += digits
		for i+1 < len(text) && strings.IndexByte(".,:", text[i]) >= 0 && isDigit(text[i+1]) {
			i += 1 + run(text[i+1:], isDigit)
			length = max(length, i)
		}
		b.WriteString("‹n›")
	}
	return i, b.String()
}

// run is how many bytes at a text's beginning are of a kind.
func run(text string, kind func(byte) bool) (n int) {
	for n < len(text) && kind(text[n]) {
		n++
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isHex(c byte) bool   { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// isWord reports whether a byte is of a word: a letter of any script, a digit or an underscore.
func isWord(c byte) bool {
	return isDigit(c) || c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' || c >= 0x80
}

// isID reports whether a word is of hexadecimal digits, and long enough. Without any digit it may be an ordinary word.
func isID(word string) bool {
	digits, prefixed := strings.CutPrefix(word, "0x")
	return len(digits) >= idLeast && run(digits, isHex) == len(digits) && (prefixed || strings.ContainsAny(digits, "0123456789"))
}
