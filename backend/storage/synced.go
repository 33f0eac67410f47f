package storage

// Merge says how concurrent edits of one field become one value; the sync spec defines the
// words.
type Merge string

// The merge words.
const (
	LWW         Merge = "lww"       // last writer wins by hybrid logical clock
	Text3       Merge = "text3"     // three-way merge of text
	ORSet       Merge = "orset"     // observed-remove set
	PNCounter   Merge = "pncounter" // counter that goes up and down
	Max         Merge = "max"       // the larger value
	Min         Merge = "min"       // the smaller value
	DenyWins    Merge = "denywins"  // the stricter value
	Derived     Merge = "derived"   // computed on each device; never captured
	Immutable   Merge = "immutable" // never changes after insert
	ManualMerge Merge = "manual"    // a person decides
)

// SyncPolicy says how the rows of a table travel.
type SyncPolicy string

// The policies.
const (
	MergeRows  SyncPolicy = "merge"  // rows change on several devices and merge by field
	AppendRows SyncPolicy = "append" // rows are inserted once and are final
)

// SyncedTable declares how one table syncs. Its columns besides Fields are id, user_id,
// created_at, updated_at, deleted_at and sync_meta.
type SyncedTable struct {
	Table string
	// Parent and ParentKey: a change of this table's rows counts as a change of the parent
	// row whose id is in column ParentKey. ParentField is the field number it marks there.
	Parent, ParentKey string
	ParentField       int
	Policy            SyncPolicy
	// Final is an SQL condition over columns written as NEW.x: a row enters the log once,
	// when it first holds. Only for AppendRows; "" means at insert.
	Final  string
	Fields []SyncedField
}

// SyncedField is one column that travels. No is its number for ever, 1 to 62; number 0
// stands for deleted_at. Sensitive fields are encrypted on the hub; Blob fields hold the
// SHA-256 of a blob that travels beside the row.
type SyncedField struct {
	No        int
	Name      string
	Merge     Merge
	Sensitive bool
	Blob      bool
}

// Synced lists the tables that sync, sorted by name. Open generates the capture triggers
// from it, so a domain never knows that sync exists.
var Synced = []SyncedTable{}

// LocalOnly lists the tables with a user_id that never leave this device, sorted.
var LocalOnly = []string{
	"device_keys",
	"secrets",
	"sync_local",
}
