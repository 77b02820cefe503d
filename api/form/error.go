package form

// ErrorBody is the body of every error answer.
type ErrorBody struct {
	Error ErrorView `json:"error"`
}

// ErrorView describes an error. Code is for programs, Message for people.
type ErrorView struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details any    `json:"details,omitempty"`
}
