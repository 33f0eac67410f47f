package audit

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// checker verifies one log entry by entry, in constant memory. The input must be in order: the
// entries of a segment, then the segment.
type checker struct {
	keys    map[string]bool // trusted public keys
	ranged  bool            // the log begins and ends anywhere
	excuses *coverage
	rep     Report
	bad     bool // a problem other than unknown_key was found
	chains  map[uuid.UUID]*chain
	cur     *chain

	started   bool
	seq       int64
	held      *heldEntry       // an entry after a gap: the next one distinguishes a gap from a swap
	prunedSeq int64            // last entry of the segments without entries
	lacking   int64            // last entry whose details may be missing without a statement
	stated    bool             // a mark contained a statement
	alarms    map[string]int64 // latest of each kind
}

// chain is the state of one device.
type chain struct {
	device    uuid.UUID
	started   bool
	hash      [32]byte
	open      merkle
	openFirst int64
	openPrev  [32]byte
	last      int64 // its last entry
	segments  int64 // number of the last segment
	lastHash  [32]byte
	pruned    int64 // number of the last segment without entries
	prunedSeq int64
	// Entries that an earlier version recorded as pruned. This counts only if it was signed before
	// the first statement, because after that anyone could have written it.
	mayPrune, legacyPruned int64
}

type heldEntry struct{ expected, found int64 }

// verdict is the result of checking one entry by itself.
type verdict struct {
	own     bool // its content is known
	mine    bool // it is counted in the report
	bad     bool // a field does not have its original type or size
	sum     [32]byte
	erased  bool
	details bool   // the details match their hash
	text    []byte // of a key change
}

func newChecker(keys []ed25519.PublicKey, ranged bool, excuses *coverage) *checker {
	c := &checker{keys: map[string]bool{}, ranged: ranged, excuses: excuses, chains: map[uuid.UUID]*chain{}, alarms: map[string]int64{}}
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

// problem records the first problem. It replaces unknown_key, but nothing else.
func (c *checker) problem(kind string, seq int64, expected, found string) {
	c.rep.OK = false
	if c.bad || c.rep.Problem != "" && kind == ProblemUnknownKey {
		return
	}
	c.bad = kind != ProblemUnknownKey
	c.rep.Problem, c.rep.Message, c.rep.Expected, c.rep.Found, c.rep.FirstBadSeq = kind, sentences[kind], expected, found, nil
	if seq > 0 {
		c.rep.FirstBadSeq = &seq
	}
}

// entry checks the next entry. After a problem it only counts.
func (c *checker) entry(r *row, v *verdict) {
	if v.mine {
		c.rep.Entries++
		if c.rep.FirstSeq == 0 {
			c.rep.FirstSeq = r.Seq
		}
		c.rep.LastSeq = r.Seq
		if v.erased {
			c.rep.Erased++
		}
	}
	if c.bad || !c.place(r) {
		return
	}
	ch := c.chain(r.Device)
	if !ch.started {
		ch.started = true
		if ch.segments > 0 {
			ch.hash = ch.lastHash
		} else if c.ranged {
			ch.hash = r.Prev
		}
	}
	switch {
	case v.bad:
		c.problem(ProblemHash, r.Seq, "fields as they were written", "a field of another kind or size")
	case r.Prev != ch.hash:
		c.problem(ProblemHash, r.Seq, hexOf(ch.hash), hexOf(r.Prev))
	case v.own && v.sum != r.Hash:
		c.problem(ProblemHash, r.Seq, hexOf(v.sum), hexOf(r.Hash))
	case v.own && !v.details:
		c.problem(ProblemHash, r.Seq, hexOf(r.DetailsHash), "details that do not match")
	case v.own && v.erased:
		c.missing(r)
	}
	if prev, ok := c.excuses.at[r.Seq]; ok && prev != hexOf(r.Prev) {
		c.problem(ProblemHash, r.Seq, prev, hexOf(r.Prev))
	}
	if ch.open.n == 0 {
		ch.openFirst, ch.openPrev = r.Seq, r.Prev
	}
	ch.last, ch.hash = r.Seq, r.Hash
	ch.open.add(r.Hash)
	c.meaning(ch, r, v)
}

// place checks that r follows the previous entry of any device. The log begins with entry 1 or
// after segments with pruned entries; a part begins anywhere.
func (c *checker) place(r *row) bool {
	if c.held != nil {
		kind := ProblemGap
		if r.Seq < c.held.found && r.Seq >= c.held.expected {
			kind = ProblemOrder
		}
		c.gap(kind)
		return false
	}
	if !c.started {
		c.started = true
		if c.seq = c.prunedSeq; c.ranged {
			c.seq = r.Seq - 1
		}
	}
	switch {
	case r.Seq == c.seq+1:
		c.seq = r.Seq
		return true
	case r.Seq == c.seq && c.seq > 0:
		c.problem(ProblemDuplicate, r.Seq, strconv.FormatInt(c.seq+1, 10), strconv.FormatInt(r.Seq, 10))
	case r.Seq <= c.seq:
		c.problem(ProblemOrder, r.Seq, strconv.FormatInt(c.seq+1, 10), strconv.FormatInt(r.Seq, 10))
	default:
		c.held = &heldEntry{expected: c.seq + 1, found: r.Seq}
	}
	return false
}

func (c *checker) gap(kind string) {
	c.problem(kind, c.held.expected, strconv.FormatInt(c.held.expected, 10), strconv.FormatInt(c.held.found, 10))
}

// missing checks that something accounts for the missing details of r.
func (c *checker) missing(r *row) {
	e := c.excuses
	switch {
	case bearsStatement(r): // never erased, because everything missing is accounted for by it
	case e.details(r), !e.complete:
		return
	case e.start != nil && r.Seq <= e.start.Through:
		if c.lacking++; c.lacking <= e.start.Count {
			return
		}
	}
	c.problem(ProblemDetails, r.Seq, "details, or an entry that says that they were erased", "none")
}

// meaning handles entries about the log itself.
func (c *checker) meaning(ch *chain, r *row, v *verdict) {
	if !v.own {
		return
	}
	switch r.Action {
	case Pruned: // of an earlier version, replaced by statements
		if n, err := strconv.ParseInt(r.SubjectID, 10, 64); err == nil && r.SubjectKind == "segment" {
			ch.legacyPruned = max(ch.legacyPruned, n)
		}
	case Alarm:
		c.alarms[r.SubjectID] = r.Seq
	case SegmentClosed:
		if r.Outcome == Failed { // the alarm of an earlier version
			c.alarms[ProblemTruncated] = r.Seq
		}
		c.stated = c.stated || v.text != nil && parseStatement(v.text) != nil
	case KeyChanged:
		var k keyChange
		if v.text != nil && json.Unmarshal(v.text, &k) == nil && c.keys[string(k.Old)] && k.valid(r.Device) {
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
	if c.held != nil {
		c.gap(ProblemGap)
		return
	}
	ch := c.chain(s.Device)
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
	case ch.open.n == 0 && !ch.started: // its entries were pruned
		ch.pruned, ch.prunedSeq = s.No, s.Last
		if c.started { // entries of another device came before
			c.problem(ProblemGap, s.First, "entries "+fmt.Sprint(s.First, " to ", s.Last), "none")
			return
		}
		c.prunedSeq = max(c.prunedSeq, s.Last)
	case ch.open.n == 0:
		c.problem(ProblemGap, s.First, "entries "+fmt.Sprint(s.First, " to ", s.Last), "none")
		return
	case s.First != ch.openFirst || s.Last != ch.last || s.Count != int64(ch.open.n):
		seq, kind := s.First, ProblemGap
		if s.First == ch.openFirst {
			if seq = ch.last + 1; s.Last < ch.last {
				seq, kind = s.Last+1, ProblemOrder
			}
		}
		c.problem(kind, seq, fmt.Sprint(s.First, " to ", s.Last), fmt.Sprint(ch.openFirst, " to ", ch.last))
		return
	case s.FirstPrev != ch.openPrev || s.LastHash != ch.hash || s.Root != ch.open.root():
		c.problem(ProblemSignature, s.First, hexOf(s.Root), hexOf(ch.open.root()))
		return
	}
	if c.excuses.first == 0 || s.Last < c.excuses.first {
		ch.mayPrune = ch.legacyPruned
	}
	ch.open.reset()
	ch.segments, ch.lastHash = s.No, s.LastHash
	c.rep.SignedThrough = max(c.rep.SignedThrough, s.Last)
}

// finish completes the report. h is the newest signed head known from elsewhere, or nil.
func (c *checker) finish(h *Head) Report {
	if c.held != nil {
		c.gap(ProblemGap)
	}
	excused := c.excuses.entries
	for _, ch := range c.chains {
		if ch.mayPrune >= ch.pruned {
			excused = max(excused, ch.prunedSeq)
		}
		c.rep.Unsigned += int64(ch.open.n)
	}
	c.rep.PrunedThrough = c.prunedSeq
	if c.prunedSeq > excused && !c.ranged {
		c.problem(ProblemGap, 1, "an entry that says so", "entries up to "+strconv.FormatInt(c.prunedSeq, 10)+" are missing")
	}
	if h != nil && !c.ranged {
		if ch := c.chains[h.Device]; ch == nil || ch.segments < h.No {
			c.problem(ProblemTruncated, max(c.seq, c.prunedSeq)+1, fmt.Sprint("segment ", h.No, " up to entry ", h.LastSeq), fmt.Sprint("entries up to ", max(c.seq, c.prunedSeq)))
		}
	}
	if c.excuses.newest > c.seq && !c.ranged {
		c.problem(ProblemTruncated, c.seq+1, "entry "+strconv.FormatInt(c.excuses.newest, 10), fmt.Sprint("entries up to ", c.seq))
	}
	for _, k := range c.excuses.keys {
		if !c.keys[string(k)] {
			c.problem(ProblemUnknownKey, 0, "a trusted key", hex.EncodeToString(k))
		}
	}
	for _, code := range slices.Sorted(maps.Keys(c.alarms)) {
		if seq := c.alarms[code]; seq > c.excuses.alarms[code] {
			c.alarm(code, seq)
		}
	}
	c.rep.CheckedAt = time.Now().UTC()
	return c.rep
}

// alarm reports a problem found by an earlier check of the head file.
func (c *checker) alarm(code string, seq int64) {
	was := c.bad
	if _, known := sentences[code]; !known {
		code = ProblemTruncated
	}
	c.problem(code, seq, "a head file that matches the log", "an alarm")
	c.rep.Alarm = c.rep.Alarm || !was
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
