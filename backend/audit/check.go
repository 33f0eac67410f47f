package audit

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// checker follows one log entry by entry, in memory that does not grow with it. It is fed
// in order: the entries of a segment, then the segment.
type checker struct {
	keys   map[string]bool // trusted public keys
	ranged bool            // the log begins and ends anywhere
	rep    Report
	bad    bool // a problem other than unknown_key was found
	chains map[uuid.UUID]*chain
	cur    *chain
}

// chain is the state of one device.
type chain struct {
	device    uuid.UUID
	started   bool
	seq       int64
	hash      [32]byte
	open      merkle
	openFirst int64
	openPrev  [32]byte
	segments  int64 // number of the last segment
	lastHash  [32]byte
	lastSeq   int64 // last entry of the last segment
	pruned    int64 // last segment whose entries were not there
	prunedSeq int64
	mayPrune  int64      // what the log itself says was pruned
	held      *heldEntry // an entry after a gap: the next one tells a gap from a swap
}

type heldEntry struct{ expected, found int64 }

// verdict is what one entry looked like on its own.
type verdict struct {
	own     bool // its content could be checked
	sum     [32]byte
	erased  bool
	details bool   // the details match their hash
	text    []byte // of a key change
}

func newChecker(keys []ed25519.PublicKey, ranged bool) *checker {
	c := &checker{keys: map[string]bool{}, ranged: ranged, chains: map[uuid.UUID]*chain{}}
	for _, k := range keys {
		c.keys[string(k)] = true
	}
	c.rep.OK = true
	return c
}

func (c *checker) chain(device uuid.UUID) *chain {
	if c.cur != nil && c.cur.device == device {
		return c.cur
	}
	ch := c.chains[device]
	if ch == nil {
		ch = &chain{device: device, hash: genesis(device)}
		c.chains[device] = ch
	}
	c.cur = ch
	return ch
}

// problem records the first problem; unknown_key yields to any other.
func (c *checker) problem(kind string, seq int64, expected, found string) {
	c.rep.OK = false
	if c.bad || c.rep.Problem != "" && kind == ProblemUnknownKey {
		return
	}
	c.bad = kind != ProblemUnknownKey
	c.rep.Problem, c.rep.FirstBadSeq, c.rep.Expected, c.rep.Found = kind, &seq, expected, found
}

// entry checks the next entry of its device. After a problem it only counts.
func (c *checker) entry(r *row, v *verdict) {
	if v.own {
		c.rep.Entries++
		if c.rep.FirstSeq == 0 {
			c.rep.FirstSeq = r.Seq
		}
		c.rep.LastSeq = r.Seq
		if v.erased {
			c.rep.Erased++
		}
	}
	if c.bad {
		return
	}
	ch := c.chain(r.Device)
	if ch.held != nil {
		kind := ProblemGap
		if r.Seq < ch.held.found && r.Seq >= ch.held.expected {
			kind = ProblemOrder
		}
		c.problem(kind, ch.held.expected, strconv.FormatInt(ch.held.expected, 10), strconv.FormatInt(ch.held.found, 10))
		return
	}
	if !ch.started {
		c.first(ch, r)
	} else if r.Seq != ch.seq+1 {
		switch {
		case r.Seq == ch.seq:
			c.problem(ProblemDuplicate, r.Seq, strconv.FormatInt(ch.seq+1, 10), strconv.FormatInt(r.Seq, 10))
		case r.Seq < ch.seq:
			c.problem(ProblemOrder, r.Seq, strconv.FormatInt(ch.seq+1, 10), strconv.FormatInt(r.Seq, 10))
		default:
			ch.held = &heldEntry{expected: ch.seq + 1, found: r.Seq}
		}
		if c.bad || ch.held != nil {
			return
		}
	}
	switch {
	case r.Prev != ch.hash:
		c.problem(ProblemHash, r.Seq, hexOf(ch.hash), hexOf(r.Prev))
	case v.own && v.sum != r.Hash:
		c.problem(ProblemHash, r.Seq, hexOf(v.sum), hexOf(r.Hash))
	case v.own && !v.details:
		c.problem(ProblemHash, r.Seq, hexOf(r.DetailsHash), "details that do not match")
	}
	if ch.open.n == 0 {
		ch.openFirst, ch.openPrev = r.Seq, r.Prev
	}
	ch.seq, ch.hash = r.Seq, r.Hash
	ch.open.add(r.Hash)
	c.meaning(ch, r, v)
}

// first checks where a chain begins: at its genesis, behind segments whose entries left, or
// anywhere in an export of a part.
func (c *checker) first(ch *chain, r *row) {
	ch.started = true
	switch {
	case ch.segments > 0:
		if r.Seq != ch.lastSeq+1 {
			c.problem(ProblemGap, ch.lastSeq+1, strconv.FormatInt(ch.lastSeq+1, 10), strconv.FormatInt(r.Seq, 10))
		}
		ch.hash = ch.lastHash
	case c.ranged:
		ch.hash = r.Prev
	case r.Prev != ch.hash:
		c.problem(ProblemGap, 1, hexOf(ch.hash), hexOf(r.Prev))
	}
}

// meaning acts on the entries that speak about the log itself.
func (c *checker) meaning(ch *chain, r *row, v *verdict) {
	switch {
	case r.Action == Pruned && r.SubjectKind == "segment" && v.own:
		if n, err := strconv.ParseInt(r.SubjectID, 10, 64); err == nil {
			ch.mayPrune = max(ch.mayPrune, n)
		}
	case r.Action == KeyChanged && v.own && v.text != nil:
		var k keyChange
		if json.Unmarshal(v.text, &k) == nil && c.keys[string(k.Old)] && k.valid(r.Device) {
			c.keys[string(k.New)] = true
		}
	}
}

// segment checks a segment after its entries.
func (c *checker) segment(s *segment) {
	c.rep.Segments++
	if c.bad {
		return
	}
	ch := c.chain(s.Device)
	if ch.held != nil {
		c.problem(ProblemGap, ch.held.expected, strconv.FormatInt(ch.held.expected, 10), strconv.FormatInt(ch.held.found, 10))
		return
	}
	if !s.valid() {
		c.problem(ProblemSignature, s.First, "a valid signature over segment "+strconv.FormatInt(s.No, 10), hex.EncodeToString(s.Signature))
		return
	}
	if !c.keys[string(s.Key)] {
		c.problem(ProblemUnknownKey, s.First, "a trusted key", hex.EncodeToString(s.Key))
	}
	switch {
	case ch.segments > 0 && s.No != ch.segments+1, ch.segments == 0 && !c.ranged && s.No != 1:
		kind := ProblemGap
		if s.No <= ch.segments {
			if kind = ProblemOrder; s.No == ch.segments {
				kind = ProblemDuplicate
			}
		}
		c.problem(kind, s.First, "segment "+strconv.FormatInt(ch.segments+1, 10), "segment "+strconv.FormatInt(s.No, 10))
		return
	case ch.segments > 0 && s.FirstPrev != ch.lastHash:
		c.problem(ProblemSignature, s.First, hexOf(ch.lastHash), hexOf(s.FirstPrev))
		return
	case ch.segments == 0 && s.No == 1 && s.FirstPrev != genesis(s.Device):
		c.problem(ProblemSignature, s.First, hexOf(genesis(s.Device)), hexOf(s.FirstPrev))
		return
	}
	switch {
	case ch.open.n == 0 && !ch.started: // its entries left
		ch.pruned, ch.prunedSeq = s.No, s.Last
	case ch.open.n == 0:
		c.problem(ProblemGap, s.First, "entries "+fmt.Sprint(s.First, " to ", s.Last), "none")
		return
	case s.First != ch.openFirst || s.Last != ch.seq || s.Count != int64(ch.open.n):
		seq, kind := s.First, ProblemGap
		if s.First == ch.openFirst {
			if seq = ch.seq + 1; s.Last < ch.seq {
				seq, kind = s.Last+1, ProblemOrder
			}
		}
		c.problem(kind, seq, fmt.Sprint(s.First, " to ", s.Last), fmt.Sprint(ch.openFirst, " to ", ch.seq))
		return
	case s.FirstPrev != ch.openPrev || s.LastHash != ch.hash || s.Root != ch.open.root():
		c.problem(ProblemSignature, s.First, hexOf(s.Root), hexOf(ch.open.root()))
		return
	}
	ch.open.reset()
	ch.segments, ch.lastHash, ch.lastSeq = s.No, s.LastHash, s.Last
	c.rep.SignedThrough = max(c.rep.SignedThrough, s.Last)
}

// finish closes the report; h is the newest signed head that is known from elsewhere, or nil.
func (c *checker) finish(h *Head) Report {
	for _, ch := range c.chains {
		if ch.held != nil {
			c.problem(ProblemGap, ch.held.expected, strconv.FormatInt(ch.held.expected, 10), strconv.FormatInt(ch.held.found, 10))
		}
		if ch.pruned > ch.mayPrune && !c.ranged {
			c.problem(ProblemGap, 1, "an entry that says so", "entries up to "+strconv.FormatInt(ch.prunedSeq, 10)+" are missing")
		}
		c.rep.PrunedThrough = max(c.rep.PrunedThrough, ch.prunedSeq)
		c.rep.Unsigned += int64(ch.open.n)
	}
	if h != nil && !c.ranged {
		if ch := c.chains[h.Device]; ch == nil || ch.segments < h.No {
			last := int64(0)
			if ch != nil {
				last = max(ch.seq, ch.lastSeq)
			}
			c.problem(ProblemTruncated, last+1, fmt.Sprint("segment ", h.No, " up to entry ", h.LastSeq), fmt.Sprint("entries up to ", last))
		}
	}
	c.rep.CheckedAt = time.Now().UTC()
	return c.rep
}

// keyChange is the details of a KeyChanged entry.
type keyChange struct {
	Old          ed25519.PublicKey `json:"old"`
	New          ed25519.PublicKey `json:"new"`
	OldSignature []byte            `json:"oldSignature"`
	NewSignature []byte            `json:"newSignature"`
}

func (k *keyChange) message(device uuid.UUID) []byte {
	b := prefix(nil, []byte("helix-audit-key-v1"))
	return prefix(prefix(prefix(b, device[:]), k.Old), k.New)
}

func (k *keyChange) valid(device uuid.UUID) bool {
	return len(k.Old) == ed25519.PublicKeySize && len(k.New) == ed25519.PublicKeySize &&
		ed25519.Verify(k.Old, k.message(device), k.OldSignature) && ed25519.Verify(k.New, k.message(device), k.NewSignature)
}
