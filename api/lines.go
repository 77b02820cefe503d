package api

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lineBuffer is the size of the buffer that a stream's body is read through. Lines that fit take no other memory.
const lineBuffer = 64 << 10

// errLong is the error of a line that is longer than a submission.
var errLong = errors.New("a line is too long")

// lineReader reads a text line by line. It holds no more than its buffer and one line.
type lineReader struct {
	from *bufio.Reader
	long []byte // a line that does not fit into the buffer
}

func newLineReader(from io.Reader) *lineReader {
	return &lineReader{from: bufio.NewReaderSize(from, lineBuffer)}
}

// ready reports whether next returns a line without reading more of the body.
func (l *lineReader) ready() bool {
	read, _ := l.from.Peek(l.from.Buffered())
	return bytes.IndexByte(read, '\n') >= 0
}

// next returns the next line, which is valid until the next call. The last line may have no end. The bytes of a line that is longer
// than the buffer count towards hold. The rest of a line that is refused is read and dropped.
func (l *lineReader) next(hold *holding) ([]byte, error) {
	part, err := l.from.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return endOfLine(part, err)
	}
	l.long = l.long[:0]
	var refused error
	for {
		switch {
		case refused != nil:
		case len(l.long)+len(part) > BodyMax:
			refused = errLong
		default:
			if refused = hold.add(int64(len(part))); refused == nil {
				l.long = append(l.long, part...)
			}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		part, err = l.from.ReadSlice('\n')
	}
	if refused != nil && (err == nil || errors.Is(err, io.EOF)) {
		return nil, refused
	}
	return endOfLine(l.long, err)
}

// endOfLine returns a line that was read up to err. The end of the body ends its last line.
func endOfLine(line []byte, err error) ([]byte, error) {
	if errors.Is(err, io.EOF) && len(line) > 0 {
		return line, nil
	}
	return line, err
}

// shrink frees the memory of a long line.
func (l *lineReader) shrink() { l.long = nil }
