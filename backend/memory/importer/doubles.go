package importer

import (
	"encoding/binary"
	"hash/maphash"
	"path"
	"strconv"
	"time"
)

// maxIDs is the maximum number of ids per source that are checked for duplicates; they take about
// 40 MB. Ids of later records are assumed to be unique.
const maxIDs = 1 << 20

// ids makes the ids of records unique. Of several records with the same id but different content,
// the second gets the id id#2 and so on; records with the same content are copies and keep the same
// id. The result depends only on the order in the source, so a source always yields the same ids.
type ids struct {
	seed       maphash.Seed
	seen       map[uint64]uint64 // hash of an id to the hash of the content
	duplicates map[uint64]*duplicate
}

// duplicate is an id that several records share.
type duplicate struct {
	last    int
	numbers map[uint64]int // hash of the content to number
}

// makeUnique makes the id of a record unique. name is the name of the file.
func (s *ids) makeUnique(rec *Record, name string) {
	if s.seen == nil {
		s.seed, s.seen, s.duplicates = maphash.MakeSeed(), map[uint64]uint64{}, map[uint64]*duplicate{}
	}
	d := s.digest()
	switch {
	case rec.Conversation != nil:
		c := rec.Conversation
		d.text(c.Title)
		for i := range c.Turns {
			t := &c.Turns[i]
			d.text(t.ExternalID)
			d.text(t.Role)
			d.text(t.Speaker)
			d.text(t.Text)
			d.time(t.At)
		}
		c.ExternalID = s.number("", c.ExternalID, d.Sum64())
	case rec.Memory != nil && rec.Memory.ExternalID != "":
		m := rec.Memory
		scope := ""
		if m.Local = len(m.ExternalID) < 8; m.Local {
			scope = path.Base(name)
		}
		d.text(m.Content)
		d.text(m.Type)
		d.int(int64(m.Layer))
		for _, tag := range m.Tags {
			d.text(tag)
		}
		d.time(m.At)
		m.ExternalID = s.number(scope, m.ExternalID, d.Sum64())
	}
}

func (s *ids) number(scope, id string, says uint64) string {
	key := s.key(scope, id)
	first, known := s.seen[key]
	switch {
	case !known:
		if len(s.seen) < maxIDs {
			s.seen[key] = says
		}
		return id
	case first == says:
		return id
	}
	d := s.duplicates[key]
	if d == nil {
		d = &duplicate{last: 1, numbers: map[uint64]int{}}
		s.duplicates[key] = d
	}
	if n := d.numbers[says]; n > 0 {
		return numbered(id, n)
	}
	for {
		d.last++
		name := numbered(id, d.last)
		key := s.key(scope, name)
		if _, taken := s.seen[key]; taken { // another record has this id
			continue
		}
		if len(s.seen) < maxIDs {
			s.seen[key] = says
			d.numbers[says] = d.last
		}
		return name
	}
}

func (s *ids) key(scope, id string) uint64 {
	d := s.digest()
	d.text(scope)
	d.text(id)
	return d.Sum64()
}

func numbered(id string, n int) string {
	suffix := "#" + strconv.Itoa(n)
	return cut(id, maxTitle-len(suffix)) + suffix
}

// digest is a hash of several values.
type digest struct{ maphash.Hash }

func (s *ids) digest() *digest {
	d := &digest{}
	d.SetSeed(s.seed)
	return d
}

func (d *digest) text(s string) {
	d.int(int64(len(s)))
	_, _ = d.WriteString(s)
}

func (d *digest) int(n int64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	_, _ = d.Write(b[:])
}

func (d *digest) time(t *time.Time) {
	if t == nil {
		d.int(-1 << 63)
		return
	}
	d.int(t.UnixMicro())
}
