package storage

import (
	"maps"
	"regexp"
	"slices"
	"testing"
)

// A field number permanently identifies one field of a row: a column, or a child table whose rows
// are one of its values.
func TestFieldNumbersAreUnique(t *testing.T) {
	t.Parallel()
	taken := map[string]map[int]string{}
	take := func(table string, no int, name string) {
		if taken[table] == nil {
			taken[table] = map[int]string{0: "deleted_at"}
		}
		if was, ok := taken[table][no]; ok || no < 0 || no > 62 {
			t.Errorf("field %d of %s is %s and %s, or out of range", no, table, name, was)
		}
		taken[table][no] = name
	}
	for _, s := range Synced {
		for _, f := range s.Fields {
			take(s.Table, f.No, f.Name)
		}
		if s.Parent != "" {
			take(s.Parent, s.ParentField, s.Table)
		}
	}
}

// Every table with a user_id is in one of the lists, and everything in the lists exists.
func TestListsCoverTheSchema(t *testing.T) {
	t.Parallel()
	db := open(t)
	have := map[string]map[string]string{}
	if err := db.Read(t.Context(), func(tx *Tx) error {
		rows, err := tx.Query(`SELECT name FROM sqlite_schema WHERE type = 'table'`)
		if err != nil {
			return err
		}
		var tables []string
		for rows.Next() {
			var n string
			if err := rows.Scan(&n); err != nil {
				return err
			}
			tables = append(tables, n)
		}
		if err := rows.Close(); err != nil {
			return err
		}
		for _, n := range tables {
			if have[n], err = tx.columns(n); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	synced := map[string]SyncedTable{}
	for _, s := range Synced {
		if synced[s.Table].Table != "" {
			t.Errorf("%s is twice in Synced", s.Table)
		}
		synced[s.Table] = s
		checkSynced(t, s, have[s.Table])
	}
	for name, columns := range have {
		if columns["user_id"] != "" && synced[name].Table == "" && !slices.Contains(LocalOnly, name) {
			t.Errorf("table %s has a user_id: add it to storage.Synced or storage.LocalOnly", name)
		}
	}
	for _, name := range LocalOnly {
		if have[name] == nil || synced[name].Table != "" {
			t.Errorf("LocalOnly names %s, which is not there or also synced", name)
		}
	}
	if !slices.IsSorted(LocalOnly) {
		t.Error("LocalOnly is not sorted")
	}
	for _, s := range Sealed {
		if have[s.Table][s.Column] == "" || have[s.Table][s.id()] != "BLOB" {
			t.Errorf("Sealed names %s.%s, which is not there or has no BLOB id", s.Table, s.Column)
		}
		if want := map[bool]string{true: "ANY", false: "BLOB"}[s.Private]; have[s.Table][s.Column] != want {
			t.Errorf("%s.%s is %s, want %s", s.Table, s.Column, have[s.Table][s.Column], want)
		}
	}
}

func checkSynced(t *testing.T, s SyncedTable, columns map[string]string) {
	t.Helper()
	if s.Policy != MergeRows && s.Policy != AppendRows {
		t.Errorf("%s: policy %q", s.Table, s.Policy)
	}
	if s.Policy == MergeRows { // such a row changes, so only a column that isn't merged can keep it here
		for _, m := range regexp.MustCompile(`NEW\.(\w+)`).FindAllStringSubmatch(s.Final, -1) {
			if !slices.ContainsFunc(s.Fields, func(f SyncedField) bool { return f.Name == m[1] && f.Merge == Derived }) {
				t.Errorf("%s: final %q depends on %s, which is merged", s.Table, s.Final, m[1])
			}
		}
	}
	must := []string{"id", "user_id", "created_at", "sync_meta"}
	if s.Policy == MergeRows {
		must = append(must, "updated_at", "deleted_at")
	}
	if s.Parent != "" {
		must = []string{s.ParentKey}
	}
	for _, c := range must {
		if columns[c] == "" {
			t.Errorf("%s has no column %s", s.Table, c)
		}
	}
	merges := []Merge{LWW, Text3, ORSet, PNCounter, Max, Min, DenyWins, Derived, Immutable, ManualMerge}
	for _, f := range s.Fields {
		if columns[f.Name] == "" || !slices.Contains(merges, f.Merge) {
			t.Errorf("%s field %s %s: column or merge word is wrong", s.Table, f.Name, f.Merge)
		}
		if slices.Contains(must, f.Name) || f.Name == "deleted_at" {
			t.Errorf("%s lists %s, which every synced table has", s.Table, f.Name)
		}
	}
	for _, c := range slices.Sorted(maps.Keys(columns)) {
		if slices.Contains(append(must, "id", "user_id", "updated_at", "deleted_at", "created_at"), c) {
			continue
		}
		if !slices.ContainsFunc(s.Fields, func(f SyncedField) bool { return f.Name == c }) {
			t.Errorf("%s.%s is in no field: list it, as derived if it does not travel", s.Table, c)
		}
	}
}

// A column that may refer to blobs is recognized by its name or its CHECK, and a synced one is
// marked.
func TestBlobReferencesAreDerivedFromTheSchema(t *testing.T) {
	t.Parallel()
	db := open(t)
	var refs, other []BlobColumn
	must(t, db.Read(t.Context(), func(tx *Tx) (err error) {
		if refs, err = BlobColumns(t.Context(), tx); err != nil {
			return err
		}
		return eachRow(t.Context(), tx, `SELECT m.name, c.name FROM sqlite_master m, pragma_table_xinfo(m.name) c WHERE m.type = 'table' AND m.sql NOT LIKE 'create virtual%'`, func(scan func(...any) error) error {
			var c BlobColumn
			err := scan(&c.Table, &c.Column)
			other = append(other, c)
			return err
		})
	}))
	want := []BlobColumn{{"chat_attachments", "sha256"}, {"composite_skill_steps", "output_blob"}, {"mcp_calls", "output_sha256"}, {"memory_imports", "source_blob"}, {"session_blobs", "sha256"}, {"skills", "wasm_bytecode"}, {"tool_execution_log", "output_blob"}, {"tool_manifest", "openapi_spec"}, {"voice_recordings", "audio_sha256"}, {"voice_recordings", "hub_audio"}}
	if !slices.Equal(refs, want) {
		t.Errorf("the schema refers to blobs in %v, want %v", refs, want)
	}
	for _, s := range Synced {
		for _, f := range s.Fields {
			if f.Blob != slices.Contains(refs, BlobColumn{s.Table, f.Name}) {
				t.Errorf("%s.%s: Blob is %v in Synced", s.Table, f.Name, f.Blob)
			}
		}
	}
	suspicious := regexp.MustCompile(`blob|sha|digest|bytecode|attachment|audio|image`)
	allowed := []BlobColumn{{"migration_log", "sha256"}, {"soul_documents", "sha256"}, {"voice_recordings", "audio_format"}, {"voice_recordings", "audio_size"}, {"voice_settings", "retain_audio"}, {"voice_settings", "save_audio"}}
	for _, c := range other {
		if suspicious.MatchString(c.Column) && !slices.Contains(refs, c) && !slices.Contains(allowed, c) {
			t.Errorf("%v looks like a reference to a blob and is none: let its name end in _blob, or list it here", c)
		}
	}
}
