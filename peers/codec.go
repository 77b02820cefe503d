package peers

import (
	"errors"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that slim wraps
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// partsMax bounds the parts of one write: each envelope has a type name, a target, a sender and the fields of its
// header.
const partsMax = 16 * batchMax

// slim is gRPC's codec for writes of peers. It counts the parts before decoding: a part of two bytes takes a hundred in
// memory, and a write within receiveMax has room for two million of them.
type slim struct{ encoding.CodecV2 }

func newSlim() slim { return slim{encoding.GetCodecV2("proto")} }

var errParts = errors.New("a write of a peer has too many parts, or does not parse")

// Unmarshal implements encoding.CodecV2.
func (c slim) Unmarshal(data mem.BufferSlice, v any) error {
	if _, message := v.(*remote.RemoteMessage); !message {
		return c.CodecV2.Unmarshal(data, v)
	}
	raw := data.Materialize()
	if count, ok := parts(raw, 0); !ok || count > partsMax {
		return errParts
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, v)
}

// nested are the fields of the library's messages with repeated parts, by depth: a write's batch, a batch's envelopes,
// an envelope's header. An envelope's payload is only bytes to it.
var nested = []protowire.Number{1, 3, 6}

// parts counts the fields of a message and of nested messages, and stops above partsMax.
func parts(raw []byte, depth int) (count int, ok bool) {
	for len(raw) > 0 && count <= partsMax {
		number, kind, head := protowire.ConsumeTag(raw)
		if head < 0 {
			return count, false
		}
		raw = raw[head:]
		length := protowire.ConsumeFieldValue(number, kind, raw)
		if length < 0 {
			return count, false
		}
		count++
		if depth < len(nested) && number == nested[depth] && kind == protowire.BytesType {
			inner, _ := protowire.ConsumeBytes(raw)
			below, ok := parts(inner, depth+1)
			if !ok {
				return count, false
			}
			count += below
		}
		raw = raw[length:]
	}
	return count, true
}
