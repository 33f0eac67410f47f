package memory

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"github.com/google/uuid"
)

// derivedID returns the id of a row with a natural key (RFC 9562, version 8). It is the same on every
// device where the same user imports the same data. Below a parent it begins with the prefix of the
// parent's id and the row's position, so that the rows of one conversation are adjacent and in order in
// indexes. Removed rows keep their ids; generation distinguishes successive rows of the same key.
func derivedID(parent uuid.UUID, place int64, generation int, key ...string) uuid.UUID {
	h := sha256.New()
	h.Write(parent[:])
	for _, k := range append(key, strconv.FormatInt(place, 10), strconv.Itoa(generation)) {
		h.Write([]byte(strconv.Itoa(len(k)) + ":" + k))
	}
	id := uuid.UUID(h.Sum(nil)[:16])
	if place >= 0 {
		copy(id[:6], parent[:6])
		binary.BigEndian.PutUint16(id[6:], uint16(min(place, 1<<12-1)))
	}
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// rootID returns the id of a row of user that has a natural key and no parent. Two devices that
// import the same data before they share a user derive the same ids too.
func (s *Service) rootID(user uuid.UUID, generation int, key ...string) uuid.UUID {
	return derivedID(s.db.IDSpace(user), -1, generation, key...)
}
