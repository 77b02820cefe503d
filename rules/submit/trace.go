package submit

// traceparentLen is the length of a W3C traceparent of version 00.
const traceparentLen = 55

// Traceparent is text where it is a trace context in the W3C form, and empty otherwise.
func Traceparent(text string) string {
	if len(text) != traceparentLen || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return ""
	}
	version, trace, span, flags := text[:2], text[3:35], text[36:52], text[53:]
	if version != "00" || !hexLower(trace) || !hexLower(span) || !hexLower(flags) || zeros(trace) || zeros(span) {
		return ""
	}
	return text
}

func hexLower(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func zeros(s string) bool {
	for i := range len(s) {
		if s[i] != '0' {
			return false
		}
	}
	return true
}
