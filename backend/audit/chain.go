package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// row is a row of audit_log.
type row struct {
	Seq         int64
	ID          uuid.UUID
	User        uuid.UUID
	Device      uuid.UUID
	At          int64 // microseconds
	ActorKind   string
	ActorID     string
	Action      string
	SubjectKind string
	SubjectID   string
	Outcome     string
	Run         uuid.UUID // zero: none
	DetailsHash [32]byte
	Prev        [32]byte
	Hash        [32]byte
}

// genesis returns the hash to which the first entry of a device is chained.
func genesis(device uuid.UUID) [32]byte {
	return sha256.Sum256(append([]byte("helix-audit-genesis"), device[:]...))
}

// sum returns the hash that r must have: of the tag, each field prefixed with its length (4 bytes,
// big endian) in the order of the table, and the hash of the previous entry.
func (r *row) sum() [32]byte {
	var buf [1024]byte
	b := r.appendHashed(buf[:0])
	return sha256.Sum256(b)
}

func (r *row) appendHashed(b []byte) []byte {
	b = append(b, "helix-audit-v1"...)
	b = prefixInt(b, r.Seq)
	b = prefix(b, r.ID[:])
	b = prefix(b, r.User[:])
	b = prefix(b, r.Device[:])
	b = prefixInt(b, r.At)
	for _, s := range [...]string{r.ActorKind, r.ActorID, r.Action, r.SubjectKind, r.SubjectID, r.Outcome} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	if r.Run == uuid.Nil {
		b = prefix(b, nil)
	} else {
		b = prefix(b, r.Run[:])
	}
	b = prefix(b, r.DetailsHash[:])
	return append(b, r.Prev[:]...)
}

func prefix(b, field []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(field))), field...)
}

func prefixInt(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, 8), uint64(n))
}

// hashDetails returns the details_hash of a text. Missing details have the hash of the empty text.
func hashDetails(details []byte) [32]byte { return sha256.Sum256(details) }

// merkle computes an RFC 6962 tree head over leaves added one by one. Its memory grows with the
// logarithm of their number.
type merkle struct {
	n     uint64
	stack [][32]byte // roots of the complete subtrees, largest first
}

func (m *merkle) reset() { m.n, m.stack = 0, m.stack[:0] }

// add appends one leaf.
func (m *merkle) add(leaf [32]byte) {
	var buf [33]byte // prefix 0 for leaves, 1 for nodes
	copy(buf[1:], leaf[:])
	m.push(sha256.Sum256(buf[:]))
}

// push adds the hash of one leaf.
func (m *merkle) push(h [32]byte) {
	for n := m.n; n&1 == 1; n >>= 1 {
		h = node(m.stack[len(m.stack)-1], h)
		m.stack = m.stack[:len(m.stack)-1]
	}
	m.stack = append(m.stack, h)
	m.n++
}

// root returns the tree head over the added leaves; without leaves, the hash of nothing.
func (m *merkle) root() [32]byte {
	if m.n == 0 {
		return sha256.Sum256(nil)
	}
	h := m.stack[len(m.stack)-1]
	for i := len(m.stack) - 2; i >= 0; i-- {
		h = node(m.stack[i], h)
	}
	return h
}

func node(l, r [32]byte) [32]byte {
	var buf [65]byte
	buf[0] = 1
	copy(buf[1:], l[:])
	copy(buf[33:], r[:])
	return sha256.Sum256(buf[:])
}

// segment is a row of audit_segments.
type segment struct {
	Device    uuid.UUID
	No        int64
	First     int64
	Last      int64
	Count     int64
	FirstPrev [32]byte
	LastHash  [32]byte
	Root      [32]byte
	Key       ed25519.PublicKey
	Signature []byte
	SignedAt  int64 // microseconds
}

// message returns what the device key signs.
func (s *segment) message() []byte {
	b := prefix(nil, []byte("helix-audit-seg-v1"))
	b = prefix(b, s.Device[:])
	for _, n := range [...]int64{s.No, s.First, s.Last} {
		b = prefixInt(b, n)
	}
	b = prefix(b, s.FirstPrev[:])
	b = prefix(b, s.LastHash[:])
	b = prefix(b, s.Root[:])
	return prefixInt(b, s.SignedAt)
}

func (s *segment) valid() bool {
	return s.Count == s.Last-s.First+1 && len(s.Key) == ed25519.PublicKeySize && ed25519.Verify(s.Key, s.message(), s.Signature)
}

// plain makes a name suitable for a log line: valid UTF-8 without control characters.
func plain(s string) string {
	clean := true
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	s = strings.ToValidUTF8(s, "\ufffd")
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return '\ufffd'
		}
		return r
	}, s)
}

func hexOf(h [32]byte) string { return hex.EncodeToString(h[:]) }
