package storage

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// columnKind is how a value is represented on the wire.
type columnKind int

const (
	plainValue columnKind = iota // number or text
	idValue                      // 16 bytes as a UUID
	bytesValue                   // base64
	timeValue                    // microseconds as RFC 3339
	boolValue                    // 0 and 1
	jsonValue                    // text that is JSON
)

type column struct {
	name, wire string
	kind       columnKind
	sealed     bool
}

// notExported are columns that an export omits: the owner of imported rows is whoever imports them,
// and version vectors belong to this device.
var notExported = []string{"user_id", "sync_meta"}

var (
	reJSONCheck = regexp.MustCompile(`(?i)json_valid\s*\(\s*"?(\w+)"?\s*\)`)
	reBoolCheck = regexp.MustCompile(`(?i)CHECK\s*\(\s*"?(\w+)"?\s+IN\s*\(\s*0\s*,\s*1\s*\)\s*\)`)
	reIDCheck   = regexp.MustCompile(`(?i)length\s*\(\s*"?(\w+)"?\s*\)\s*=\s*16`)
)

// rowColumns returns the columns of a table from its definition; the first is the key.
func rowColumns(ctx context.Context, q querier, table string) (out []column, err error) {
	var def string
	if err := eachRow(ctx, q, `SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?`, func(scan func(...any) error) error { return scan(&def) }, table); err != nil {
		return nil, err
	}
	named := func(re *regexp.Regexp) (names []string) {
		for _, m := range re.FindAllStringSubmatch(def, -1) {
			names = append(names, m[1])
		}
		return names
	}
	jsons, bools, ids := named(reJSONCheck), named(reBoolCheck), named(reIDCheck)
	err = eachRow(ctx, q, `SELECT name, upper(type) FROM pragma_table_info(?) ORDER BY name <> 'id', cid`, func(scan func(...any) error) error {
		var c column
		var typ string
		if err := scan(&c.name, &typ); err != nil {
			return err
		}
		if slices.Contains(notExported, c.name) {
			return nil
		}
		c.wire = camel(c.name)
		switch {
		case slices.Contains(ids, c.name), typ == "BLOB" && (c.name == "id" || strings.HasSuffix(c.name, "_id")):
			c.kind = idValue
		case typ == "BLOB":
			c.kind = bytesValue
		case slices.Contains(jsons, c.name):
			c.kind = jsonValue
		case slices.Contains(bools, c.name):
			c.kind = boolValue
		case typ == "INTEGER" && (strings.HasSuffix(c.name, "_at") || c.name == "timestamp"):
			c.kind = timeValue
		}
		c.sealed = slices.ContainsFunc(Sealed, func(s SealedColumn) bool { return s.Table == table && s.Column == c.name && !s.Private })
		out = append(out, c)
		return nil
	}, table)
	return out, err
}

const wireTime = "2006-01-02T15:04:05.000000Z"

// wire returns the value of a column as it appears in JSON.
func (t exportTable) wire(c column, v any) any {
	switch x := v.(type) {
	case []byte:
		if c.kind == idValue && len(x) == 16 {
			return uuid.UUID(x).String()
		}
		return base64.StdEncoding.EncodeToString(x)
	case int64:
		switch c.kind {
		case timeValue:
			return time.UnixMicro(x).UTC().Format(wireTime)
		case boolValue:
			return x == 1
		}
	case string:
		if c.kind == jsonValue {
			return embedJSON(x)
		}
	}
	return v
}

// embedJSON returns an object or array as raw JSON if that loses nothing of its text, else the text
// as a string.
func embedJSON(text string) any {
	if text == "" || (text[0] != '{' && text[0] != '[') {
		return text
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil || b.String() != text {
		return text
	}
	return json.RawMessage(text)
}

// encodeRow returns one line of an export, with the fields in the order of the columns.
func encodeRow(keys *Keys, t exportTable, vals []any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, c := range t.cols {
		v := vals[i]
		if c.sealed {
			if sealed, ok := v.([]byte); ok {
				plain, err := keys.Unseal(t.name, c.name, rowID(vals), sealed)
				if err != nil {
					return nil, err
				}
				v = string(plain)
			}
		} else {
			v = t.wire(c, v)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:", c.wire)
		if err := enc.Encode(v); err != nil {
			return nil, err
		}
		b.Truncate(b.Len() - 1) // the encoder appends a line break
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func rowID(vals []any) (id uuid.UUID) {
	switch v := vals[0].(type) {
	case []byte:
		copy(id[:], v)
	case uuid.UUID:
		id = v
	}
	return id
}

// decodeRow is the inverse of encodeRow. Missing fields are NULL; unknown fields are rejected,
// since dropping them would lose data.
func decodeRow(keys *Keys, t exportTable, line []byte) ([]any, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	var m map[string]json.RawMessage
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("not a JSON object (%w)", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON object")
	}
	vals := make([]any, len(t.cols))
	for i, c := range t.cols {
		raw, ok := m[c.wire]
		delete(m, c.wire)
		if !ok || string(raw) == "null" {
			continue
		}
		v, err := decodeValue(c, raw)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", c.wire, err)
		}
		vals[i] = v
	}
	for k := range m {
		return nil, fmt.Errorf("unknown field %q", k)
	}
	for i, c := range t.cols {
		if text, ok := vals[i].(string); ok && c.sealed {
			sealed, err := keys.Seal(t.name, c.name, rowID(vals), []byte(text))
			if err != nil {
				return nil, err
			}
			vals[i] = sealed
		}
	}
	return vals, nil
}

func decodeValue(c column, raw json.RawMessage) (any, error) {
	if c.kind == jsonValue && (raw[0] == '{' || raw[0] == '[') {
		return string(raw), nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n, nil
		}
		return x.Float64()
	case bool:
		if c.kind != boolValue {
			return nil, errors.New("true and false are not allowed here")
		}
		if x {
			return int64(1), nil
		}
		return int64(0), nil
	case string:
		if c.sealed {
			return x, nil
		}
		switch c.kind {
		case idValue, bytesValue:
			if id, err := uuid.Parse(x); err == nil && len(x) == 36 {
				return id[:], nil
			}
			return base64.StdEncoding.DecodeString(x)
		case timeValue:
			t, err := time.Parse(time.RFC3339Nano, x)
			if err != nil {
				return nil, err
			}
			return t.UnixMicro(), nil
		}
		return x, nil
	}
	return nil, errors.New("objects and lists are not allowed here")
}
