package storage

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"helix/backend/fault"
)

// Messages shown to people; each says what happened and what was kept.
const (
	msgFull    = "The disk is full. Nothing was changed."
	msgBusy    = "The data is in use at the moment. Nothing was changed; try again."
	msgDisk    = "The disk reported an error. Nothing was changed."
	msgCorrupt = "The data file is damaged. Helix made a copy of it and waits for your decision in recovery mode."
)

// sqliteCode returns the extended result code in err's chain, or 0 if there is none.
func sqliteCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// corrupt reports whether err means that SQLite found damage.
func corrupt(err error) bool {
	switch sqliteCode(err) & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return true
	}
	return false
}

// Violation is the kind of constraint that a statement violated.
type Violation string

// The kinds of violations; "" means none.
const (
	UniqueViolation    Violation = "unique"
	ReferenceViolation Violation = "reference" // a row that others refer to, or a reference to a missing row
	ValueViolation     Violation = "value"     // a check, a type, a missing value, or a trigger's refusal
)

// ViolationOf returns the kind of constraint that err is about, or "" if it is not a violation.
func ViolationOf(err error) Violation {
	code := sqliteCode(err)
	if code&0xff != sqlite3.SQLITE_CONSTRAINT {
		return ""
	}
	switch code {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID:
		return UniqueViolation
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return ReferenceViolation
	}
	return ValueViolation
}

// dbError converts a driver error to a coded error: a violated constraint is Conflict or Invalid, a
// full disk Limit, a busy database Unavailable. An error that a domain already coded is returned
// unchanged.
func dbError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var coded *fault.Error
	if errors.As(err, &coded) {
		return err
	}
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	if f := codeSQLite(err); f != nil {
		return f
	}
	return err
}

// codeSQLite returns the coded form of a driver error, or nil if a caller could not act on it.
func codeSQLite(err error) *fault.Error {
	code := sqliteCode(err)
	switch code {
	case 0:
		return nil
	case sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP: // no room for the WAL index
		return fault.Limitf(msgFull).WithCause(err)
	}
	switch code & 0xff {
	case sqlite3.SQLITE_FULL:
		return fault.Limitf(msgFull).WithCause(err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		f := fault.Unavailablef(msgBusy).WithCause(err)
		f.RetryAfter = time.Second
		return f
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fault.Unavailablef(msgCorrupt).WithCause(err)
	case sqlite3.SQLITE_IOERR:
		return fault.Unavailablef(msgDisk).WithCause(err)
	case sqlite3.SQLITE_TOOBIG:
		return fault.Limitf("A value is too big to store. Nothing was changed.").WithCause(err)
	case sqlite3.SQLITE_CONSTRAINT:
		return constraintError(code, err)
	}
	return nil
}

func constraintError(code int, err error) *fault.Error {
	field := camel(constraintColumn(err.Error()))
	what := "A value"
	if field != "" {
		what = fmt.Sprintf("The field %q", field)
	}
	var f *fault.Error
	switch code {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID:
		f = fault.Conflictf("%s has a value that is already in use. Nothing was changed.", what)
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		f = fault.Conflictf("Something this refers to no longer exists, or is still in use. Nothing was changed.")
	case sqlite3.SQLITE_CONSTRAINT_TRIGGER:
		f = fault.Conflictf("This change is not allowed here. Nothing was changed.")
	case sqlite3.SQLITE_CONSTRAINT_NOTNULL:
		f = fault.Invalidf("%s is missing. Nothing was changed.", what)
	default: // CHECK, DATATYPE
		f = fault.Invalidf("%s has a value that is not allowed. Nothing was changed.", what)
	}
	if field != "" {
		f.Details = fault.Field(field, fault.CodeConstraint)
	}
	return f.WithCause(err)
}

var (
	reColumns = regexp.MustCompile(`(?:UNIQUE|NOT NULL) constraint failed: ((?:\w+\.\w+(?:, )?)+)`)
	reCheck   = regexp.MustCompile(`CHECK constraint failed: (.+?)(?: \(\d+\))?(?: \(in |$)`)
	reType    = regexp.MustCompile(`column \w+\.(\w+)`)
	reIdent   = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// checkWords are the words in CHECK expressions that are not column names.
var checkWords = map[string]bool{
	"length": true, "json_valid": true, "typeof": true, "in": true, "between": true, "and": true, "or": true,
	"not": true, "null": true, "is": true, "json_type": true, "lower": true, "upper": true, "trim": true, "abs": true, "case": true, "when": true,
}

// constraintColumn extracts the column from SQLite's message: the last one of a UNIQUE key, because
// the ones before it are the owner, or the first one of a CHECK expression.
func constraintColumn(msg string) string {
	if m := reColumns.FindStringSubmatch(msg); m != nil {
		cols := strings.Split(m[1], ", ")
		_, col, _ := strings.Cut(cols[len(cols)-1], ".")
		return col
	}
	if m := reCheck.FindStringSubmatch(msg); m != nil {
		for _, w := range reIdent.FindAllString(m[1], -1) {
			if !checkWords[strings.ToLower(w)] {
				return w
			}
		}
	}
	if m := reType.FindStringSubmatch(msg); m != nil {
		return m[1]
	}
	return ""
}

// camel converts a column name to its name on the wire.
func camel(s string) string {
	parts := strings.Split(s, "_")
	for i, p := range parts[1:] {
		if p != "" {
			parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}
