package audit

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/google/uuid"
)

// The export is JSON lines with their members in a fixed order, so that equal logs have equal bytes
// and the parser can be simple. The order of lines: header; per device its entries, each segment
// directly after its last entry; trailer with the SHA-256 of all preceding lines.

const (
	headerStart  = `{"t":"header",`
	entryStart   = `{"t":"entry","seq":`
	otherStart   = `{"t":"other","seq":`
	segmentStart = `{"t":"segment","device":"`
	trailerStart = `{"t":"end",`
	formatName   = "helix-audit"

	formatVersion = 2 // version 1 had neither statements nor a signature over the whole
)

// header is the first line.
type header struct {
	T          string      `json:"t"`
	Format     string      `json:"format"`
	Version    int         `json:"version"`
	ExportedAt string      `json:"exportedAt"`
	Part       bool        `json:"part"` // limited to a period
	Devices    []deviceKey `json:"devices"`
	Statements []statement `json:"statements,omitempty"` // account for missing data
	Problem    string      `json:"problem,omitempty"`    // of the log itself, at the time of the export
}

type deviceKey struct {
	ID         uuid.UUID `json:"id"`
	PublicKeys []string  `json:"publicKeys"`
}

// trailer is the last line.
type trailer struct {
	T        string `json:"t"`
	Entries  int64  `json:"entries"`
	Segments int64  `json:"segments"`
	SHA256   string `json:"sha256"`
	// The device signs the export as a whole. Version 1 had no such signature.
	PublicKey string `json:"publicKey,omitempty"`
	Signature string `json:"signature,omitempty"`
}

// message returns what the device key signs.
func (t *trailer) message() []byte {
	b := prefix(nil, []byte("helix-audit-export-v1"))
	return prefix(prefixInt(prefixInt(b, t.Entries), t.Segments), []byte(t.SHA256))
}

func (t *trailer) key() ed25519.PublicKey {
	b, _ := hex.DecodeString(t.PublicKey)
	return b
}

func (t *trailer) valid() bool {
	sig, err := hex.DecodeString(t.Signature)
	return err == nil && hexBytes(sig) == t.Signature && hexBytes(t.key()) == t.PublicKey && len(t.key()) == ed25519.PublicKeySize && ed25519.Verify(t.key(), t.message(), sig)
}

const hexDigits = "0123456789abcdef"

func hexBytes(b []byte) string { return hex.EncodeToString(b) }

func appendHex(b, src []byte) []byte { return hex.AppendEncode(b, src) }

func appendUUID(b []byte, id uuid.UUID) []byte {
	for i, c := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b = append(b, '-')
		}
		b = append(b, hexDigits[c>>4], hexDigits[c&15])
	}
	return b
}

// appendEntryLine appends the line of one entry. details is the stored text, or nil.
func appendEntryLine(b []byte, r *row, details []byte) []byte {
	b = strconv.AppendInt(append(b, entryStart...), r.Seq, 10)
	b = appendUUID(append(b, `,"id":"`...), r.ID)
	b = appendUUID(append(b, `","user":"`...), r.User)
	b = appendUUID(append(b, `","device":"`...), r.Device)
	b = strconv.AppendInt(append(b, `","at":`...), r.At, 10)
	b = appendJSONString(append(b, `,"actorKind":`...), r.ActorKind)
	b = appendJSONString(append(b, `,"actorId":`...), r.ActorID)
	b = appendJSONString(append(b, `,"action":`...), r.Action)
	b = appendJSONString(append(b, `,"subjectKind":`...), r.SubjectKind)
	b = appendJSONString(append(b, `,"subjectId":`...), r.SubjectID)
	b = appendJSONString(append(b, `,"outcome":`...), r.Outcome)
	b = append(b, `,"runId":"`...)
	if r.Run != uuid.Nil {
		b = appendUUID(b, r.Run)
	}
	b = appendHex(append(b, `","detailsHash":"`...), r.DetailsHash[:])
	b = appendHex(append(b, `","prevHash":"`...), r.Prev[:])
	b = appendHex(append(b, `","hash":"`...), r.Hash[:])
	b = append(b, `","details":`...)
	if details == nil {
		details = []byte("null")
	}
	return append(append(b, details...), '}')
}

// appendOtherLine appends only the position of another user's entry in the chain.
func appendOtherLine(b []byte, r *row) []byte {
	b = strconv.AppendInt(append(b, otherStart...), r.Seq, 10)
	b = appendUUID(append(b, `,"device":"`...), r.Device)
	b = appendHex(append(b, `","prevHash":"`...), r.Prev[:])
	b = appendHex(append(b, `","hash":"`...), r.Hash[:])
	return append(b, `"}`...)
}

func appendSegmentLine(b []byte, s *segment) []byte {
	b = appendUUID(append(b, segmentStart...), s.Device)
	for _, f := range []struct {
		name string
		n    int64
	}{{"no", s.No}, {"first", s.First}, {"last", s.Last}, {"count", s.Count}, {"signedAt", s.SignedAt}} {
		if f.name == "no" {
			b = append(b, '"')
		}
		b = strconv.AppendInt(append(append(append(b, `,"`...), f.name...), `":`...), f.n, 10)
	}
	for _, f := range []struct {
		name string
		v    []byte
	}{{"firstPrev", s.FirstPrev[:]}, {"lastHash", s.LastHash[:]}, {"root", s.Root[:]}, {"publicKey", s.Key}, {"signature", s.Signature}} {
		b = append(appendHex(append(append(append(b, `,"`...), f.name...), `":"`...), f.v), '"')
	}
	return append(b, '}')
}

var errFormat = errors.New("audit: not a line of an export")

// reader parses a line in the order in which it was written. After the first mismatch bad is set.
type reader struct {
	b     []byte
	bad   bool
	names *names
}

func (p *reader) lit(s string) {
	if len(p.b) < len(s) || string(p.b[:len(s)]) != s {
		p.bad = true
		return
	}
	p.b = p.b[len(s):]
}

func (p *reader) int() (n int64) {
	i := 0
	for i < len(p.b) && i < 19 && p.b[i] >= '0' && p.b[i] <= '9' {
		n = n*10 + int64(p.b[i]-'0')
		i++
	}
	if i == 0 || p.b[0] == '0' && i > 1 || n < 0 {
		p.bad = true
	}
	p.b = p.b[i:]
	return n
}

// hexValue maps lower-case hexadecimal digits to their values, and everything else to 0xff.
var hexValue = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i := range len(hexDigits) {
		t[hexDigits[i]] = byte(i)
	}
	return t
}()

func (p *reader) hex(dst []byte) {
	if len(p.b) < 2*len(dst) {
		p.bad = true
		return
	}
	var wrong byte
	src := p.b[:2*len(dst)]
	for i := range dst {
		hi, lo := hexValue[src[2*i]], hexValue[src[2*i+1]]
		wrong |= hi | lo
		dst[i] = hi<<4 | lo&15
	}
	p.bad = p.bad || wrong > 15
	p.b = p.b[2*len(dst):]
}

func (p *reader) uuid() (id uuid.UUID) {
	b := p.b
	if len(b) < 36 || b[8] != '-' || b[13] != '-' || b[18] != '-' || b[23] != '-' {
		p.bad = true
		return id
	}
	var wrong byte
	for i, at := range [16]uint8{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34} {
		hi, lo := hexValue[b[at]], hexValue[b[at+1]]
		wrong |= hi | lo
		id[i] = hi<<4 | lo&15
	}
	p.bad = p.bad || wrong > 15
	p.b = b[36:]
	return id
}

// names caches recent strings, because a log contains few distinct ones.
type names [256]string

func (n *names) of(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	slot := &n[byte(len(b))^b[0]^b[len(b)-1]<<1^b[len(b)/2]<<3]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}

// str parses a string written by appendJSONString. Any other spelling sets bad.
func (p *reader) str() string {
	if len(p.b) == 0 || p.b[0] != '"' {
		p.bad = true
		return ""
	}
	for i := 1; i < len(p.b); i++ {
		switch c := p.b[i]; {
		case c == '"':
			s := p.names.of(p.b[1:i])
			p.b = p.b[i+1:]
			return s
		case c == '\\':
			return p.escaped()
		case c < 0x20 || c == 0x7f:
			p.bad = true
			return ""
		}
	}
	p.bad = true
	return ""
}

func (p *reader) escaped() string {
	for i := 1; i < len(p.b); i++ {
		switch p.b[i] {
		case '\\':
			i++
		case '"':
			var s string
			raw := p.b[:i+1]
			if json.Unmarshal(raw, &s) != nil || !bytes.Equal(appendJSONString(nil, s), raw) {
				p.bad = true
			}
			p.b = p.b[i+1:]
			return s
		}
	}
	p.bad = true
	return ""
}

// parseEntry parses an entry line. details refers to line and is nil for null.
func parseEntry(line []byte, r *row, n *names) (details []byte, err error) {
	p := reader{b: line, names: n}
	p.lit(entryStart)
	r.Seq = p.int()
	p.lit(`,"id":"`)
	r.ID = p.uuid()
	p.lit(`","user":"`)
	r.User = p.uuid()
	p.lit(`","device":"`)
	r.Device = p.uuid()
	p.lit(`","at":`)
	r.At = p.int()
	for _, f := range [...]struct {
		name string
		dst  *string
	}{{`,"actorKind":`, &r.ActorKind}, {`,"actorId":`, &r.ActorID}, {`,"action":`, &r.Action}, {`,"subjectKind":`, &r.SubjectKind}, {`,"subjectId":`, &r.SubjectID}, {`,"outcome":`, &r.Outcome}} {
		p.lit(f.name)
		*f.dst = p.str()
	}
	p.lit(`,"runId":"`)
	r.Run = uuid.Nil
	if len(p.b) > 0 && p.b[0] != '"' {
		if r.Run = p.uuid(); r.Run == uuid.Nil {
			p.bad = true
		}
	}
	p.lit(`","detailsHash":"`)
	p.hex(r.DetailsHash[:])
	p.lit(`","prevHash":"`)
	p.hex(r.Prev[:])
	p.lit(`","hash":"`)
	p.hex(r.Hash[:])
	p.lit(`","details":`)
	if p.bad || len(p.b) < 2 || p.b[len(p.b)-1] != '}' {
		return nil, errFormat
	}
	if details = p.b[:len(p.b)-1]; string(details) == "null" {
		details = nil
	}
	return details, nil
}

func parseOther(line []byte, r *row) error {
	p := reader{b: line}
	p.lit(otherStart)
	*r = row{Seq: p.int()}
	p.lit(`,"device":"`)
	r.Device = p.uuid()
	p.lit(`","prevHash":"`)
	p.hex(r.Prev[:])
	p.lit(`","hash":"`)
	p.hex(r.Hash[:])
	p.lit(`"}`)
	if p.bad || len(p.b) != 0 {
		return errFormat
	}
	return nil
}

func parseSegment(line []byte, s *segment) error {
	p := reader{b: line}
	p.lit(segmentStart)
	s.Device = p.uuid()
	p.lit(`","no":`)
	s.No = p.int()
	p.lit(`,"first":`)
	s.First = p.int()
	p.lit(`,"last":`)
	s.Last = p.int()
	p.lit(`,"count":`)
	s.Count = p.int()
	p.lit(`,"signedAt":`)
	s.SignedAt = p.int()
	s.Key, s.Signature = make([]byte, ed25519.PublicKeySize), make([]byte, ed25519.SignatureSize)
	for _, f := range []struct {
		name string
		dst  []byte
	}{{"firstPrev", s.FirstPrev[:]}, {"lastHash", s.LastHash[:]}, {"root", s.Root[:]}, {"publicKey", s.Key}, {"signature", s.Signature}} {
		p.lit(`,"` + f.name + `":"`)
		p.hex(f.dst)
		p.lit(`"`)
	}
	p.lit(`}`)
	if p.bad || len(p.b) != 0 {
		return errFormat
	}
	return nil
}

// parseStrict parses a header or trailer, which must have exactly the bytes that were written.
func parseStrict(line []byte, v any) error {
	if err := json.Unmarshal(line, v); err != nil {
		return errFormat
	}
	again, err := json.Marshal(v)
	if err != nil || !bytes.Equal(again, line) {
		return errFormat
	}
	return nil
}
