package storage

import "github.com/google/uuid"

// localSpace is the name space of the local user on every device.
var localSpace = uuid.UUID{0x5f, 0x9f, 0x6b, 0xb4, 0x6d, 0x0e, 0x4e, 0x57, 0x9c, 0x5d, 0x0d, 0x2f, 0x8a, 0x1b, 0x7c, 0x63}

// IDSpace is the name space for ids of user's rows that are made from a natural key. Before a
// device is enrolled its local user has an id of its own, so for that user the name space does
// not depend on it: two devices make the same row before and after Rekey. Other users of this
// file keep rows of the same key apart by their own ids.
func (db *DB) IDSpace(user uuid.UUID) uuid.UUID {
	if user == db.LocalUser().ID {
		return localSpace
	}
	return user
}
