package wire

// FormOf is formOf for tests.
var FormOf = formOf
