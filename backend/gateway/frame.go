package gateway

import (
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// maxBatch is the maximum number of entries in a batch.
const maxBatch = 100

// request is one decoded frame or one entry of a batch. A request with bad set is answered with
// that error and not processed further.
type request struct {
	id     json.RawMessage // nil for a notification
	method string
	params []byte // nil if absent
	bad    *wireError
}

// parseFrame checks a frame and splits it into requests. An error means that the frame as a whole
// is invalid.
func parseFrame(b []byte) (reqs []request, batch bool, err error) {
	if !utf8.Valid(b) {
		return nil, false, errUTF8
	}
	s := scan(b)
	defer s.done()
	s.space()
	switch s.peek() {
	case '{':
		reqs = make([]request, 1)
		r := &reqs[0]
		if err := r.read(s, 1); errors.Is(err, errDepth) && len(r.id) > 0 && validID(r.id) {
			r.bad = badRequest(err.Error()) // the error is sent under this id
			return reqs, false, nil
		} else if err != nil {
			return nil, false, err
		}
	case '[':
		batch = true
		n := 0
		err := s.array(1, func(raw []byte) error {
			if n++; n > maxBatch {
				return nil // counted, and refused below
			}
			r := request{}
			if raw[0] == '{' {
				// The element is known to be valid; with a depth of 1 it cannot exceed the limit
				// again.
				if err := r.read(&scanner{b: raw}, 1); err != nil {
					return err
				}
			} else {
				r.id, r.bad = nullID, badRequest("a request is an object")
			}
			reqs = append(reqs, r)
			return nil
		})
		if err != nil {
			return nil, false, err
		}
		if n == 0 {
			reqs, batch = []request{{id: nullID, bad: badRequest("the batch is empty")}}, false
		} else if n > maxBatch {
			reqs, batch = []request{{id: nullID, bad: badRequest("a batch has at most 100 entries")}}, false
		}
	default:
		if err := s.value(1); err != nil {
			return nil, false, err
		}
		reqs = []request{{id: nullID, bad: badRequest("a request is an object")}}
	}
	s.space()
	if s.i != len(b) {
		return nil, false, errSyntax
	}
	return reqs, batch, nil
}

var nullID = json.RawMessage("null")

var errNotVersion2 = badRequest(`"jsonrpc" must be "2.0"`)

// read decodes the members of one request object.
func (r *request) read(s *scanner, depth int) error {
	var version, idBad, methodBad, paramsBad, hasMethod bool
	err := s.object(depth, func(m member) error {
		switch string(m.key) {
		case "jsonrpc":
			version = string(m.raw) == `"2.0"`
		case "id":
			r.id = m.raw
			idBad = !validID(m.raw)
		case "method":
			hasMethod = true
			if m.raw[0] != '"' {
				methodBad = true
				return nil
			}
			name, err := unquote(m.raw)
			r.method = string(name)
			return err
		case "params":
			r.params = m.raw
			paramsBad = m.raw[0] != '{' && m.raw[0] != '['
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case idBad:
		r.id, r.bad = nullID, badRequest("an id is a string or an integer")
	case !version:
		r.bad = errNotVersion2
	case !hasMethod || methodBad:
		r.bad = badRequest("a request names its method as a string")
	case paramsBad:
		r.bad = badRequest("params is an object")
	}
	if r.bad != nil && r.id == nil {
		r.id = nullID // an invalid request is answered even without an id
	}
	return nil
}

// validID accepts strings of up to 256 bytes and integers.
func validID(raw []byte) bool {
	if len(raw) > 258 {
		return false
	}
	if raw[0] == '"' {
		return true
	}
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return false
	}
	for _, c := range raw {
		if c == '.' || c == 'e' || c == 'E' {
			return false
		}
	}
	return true
}

// isFrameError reports whether err is an invalid frame of the peer, and not a broken pipe.
func isFrameError(err error) bool {
	for _, e := range []error{errSyntax, errUTF8, errDepth, errDuplicate, errBinary} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
