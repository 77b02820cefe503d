package form

// ErrorBody is the shape of every answer that is an error.
type ErrorBody struct {
	Error ErrorView `json:"error"`
}

// ErrorView says what was wrong. Code is for programs, Message for people.
type ErrorView struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details any    `json:"details,omitempty"`
}
