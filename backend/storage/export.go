package storage

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helix/backend/fault"
	"helix/backend/identity"
)

// Exported lists tables that are not synced but hold data that the user created; export includes
// them besides the tables in Synced. The other tables in LocalOnly are keys, caches and logs.
var Exported = []string{"custom_tool_state"}

// MarkdownTable declares how the rows of a table are also exported as readable documents.
type MarkdownTable struct {
	Table string
	Title string // column of the heading; "" means the id
	Body  string // column of the text
	Code  string // column with the language, when the text is code
}

// Markdown lists the tables that are also exported as documents, sorted by table. A table that does
// not exist is skipped.
var Markdown = []MarkdownTable{
	{Table: "custom_tools", Title: "name", Body: "code", Code: "language"},
	{Table: "memories", Body: "content"},
	{Table: "voice_memos", Title: "title", Body: "text"},
	{Table: "voice_transcripts", Title: "title", Body: "transcript"},
}

const exportReadme = `This folder is a copy of your data in Helix, readable without Helix.

data/TABLE.jsonl   one JSON object a line, one file a table, with the field names of the
                   programming interface; times are RFC 3339 in UTC, binary values base64
markdown/TABLE/    the same texts as Markdown files
blobs/HASH         recordings and other large files, named by SHA-256

There are no passwords and no keys in it. "helix import DIR" reads it back.
`

// exportFormat is the content of export.json.
type exportFormat struct {
	Format        int              `json:"format"`
	AppVersion    string           `json:"appVersion"`
	SchemaVersion int64            `json:"schemaVersion"`
	CreatedAt     time.Time        `json:"createdAt"`
	Rows          map[string]int64 `json:"rows"`
}

// exportTables returns the tables to export for the caller, with their columns.
func exportTables(ctx context.Context, q querier) ([]exportTable, error) {
	owned, err := ownedTables(ctx, q)
	if err != nil {
		return nil, err
	}
	out := []exportTable{}
	for _, t := range owned {
		synced := slices.ContainsFunc(Synced, func(s SyncedTable) bool { return s.Table == t.name || (s.Parent != "" && s.Table == t.name) })
		if !synced && !slices.Contains(Exported, t.name) {
			continue
		}
		cols, err := rowColumns(ctx, q, t.name)
		if err != nil {
			return nil, err
		}
		out = append(out, exportTable{ownedTable: t, cols: cols})
	}
	return out, nil
}

type exportTable struct {
	ownedTable
	cols []column
}

// Export writes the caller's data as JSON lines and Markdown, readable without Helix. It contains
// no secrets and no keys.
func (s *Service) Export(ctx context.Context, p ExportParams) (_ ExportResult, err error) {
	r := ExportResult{Dir: p.Dir, Rows: map[string]int64{}}
	ctx, done, err := s.exclusive(ctx, "export")
	if err != nil {
		return r, err
	}
	defer func() { done(err) }()
	if err := emptyTarget(p.Dir); err != nil {
		return r, err
	}
	e := &exporter{s: s, ctx: ctx, tmp: p.Dir + ".partial", r: &r, blobs: map[[32]byte]bool{}}
	if err := os.RemoveAll(e.tmp); err != nil {
		return r, err
	}
	defer os.RemoveAll(e.tmp) //nolint:errcheck // gone after the rename
	if err := s.db.Read(ctx, func(tx *Tx) error { return e.all(tx, p.Tables) }); err != nil {
		return r, fullDisk(err)
	}
	if err := e.copyBlobs(); err != nil {
		return r, fullDisk(err)
	}
	if exists(p.Dir) { // checked to be empty
		if err := os.Remove(p.Dir); err != nil {
			return r, err
		}
	}
	if err := errors.Join(os.Rename(e.tmp, p.Dir), syncDir(filepath.Dir(p.Dir))); err != nil {
		return r, err
	}
	return r, s.note(ctx, "data.export", map[string]any{"kind": "export", "rows": r.Rows})
}

func emptyTarget(dir string) error {
	if !filepath.IsAbs(dir) {
		return fault.Invalidf("The folder for the export must be an absolute path.")
	}
	es, err := readDirIf(dir)
	switch {
	case err != nil:
		return fault.Invalidf("The folder for the export cannot be used.").WithCause(err)
	case len(es) > 0:
		return fault.Conflictf("The folder for the export is not empty. Nothing was changed.")
	case !exists(filepath.Dir(dir)):
		return fault.Invalidf("The folder above the export does not exist.")
	}
	return nil
}

// exporter writes one export to a temporary folder that is renamed at the end.
type exporter struct {
	s     *Service
	ctx   context.Context
	tmp   string
	r     *ExportResult
	refs  []BlobColumn
	blobs map[[32]byte]bool
}

func (e *exporter) all(tx *Tx, only []string) error {
	ts, err := exportTables(e.ctx, tx)
	if err != nil {
		return err
	}
	if e.refs, err = BlobColumns(e.ctx, tx); err != nil {
		return err
	}
	for _, n := range only {
		if !slices.ContainsFunc(ts, func(t exportTable) bool { return t.name == n }) {
			return fault.Invalidf("No table %q to export.", n)
		}
	}
	f := exportFormat{Format: 1, AppVersion: e.s.version(), CreatedAt: tx.Now, Rows: e.r.Rows}
	if err := tx.QueryRow(`SELECT max(version_id) FROM goose_db_version WHERE is_applied = 1`).Scan(&f.SchemaVersion); err != nil {
		return err
	}
	rep := e.s.progress(e.ctx, "export")
	for i, t := range ts {
		if len(only) > 0 && !slices.Contains(only, t.name) {
			continue
		}
		rep.rows(t.name, int64(i), int64(len(ts)))
		n, err := e.table(tx, t)
		if err != nil {
			return fmt.Errorf("export %s: %w", t.name, err)
		}
		e.r.Rows[t.name] = n
	}
	b, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(e.write("export.json", b), e.write("README.txt", []byte(exportReadme)))
}

func (e *exporter) write(name string, b []byte) error {
	path := filepath.Join(e.tmp, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	e.r.Files++
	return os.WriteFile(path, b, 0o600)
}

// table writes the JSON-lines file of a table and the Markdown documents of its rows.
func (e *exporter) table(tx *Tx, t exportTable) (n int64, err error) {
	path := filepath.Join(e.tmp, "data", t.name+".jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriterSize(f, 1<<18)
	defer func() { err = errors.Join(err, w.Flush(), f.Sync(), f.Close()) }()
	e.r.Files++
	md := slices.IndexFunc(Markdown, func(m MarkdownTable) bool { return m.Table == t.name })
	names := make([]string, len(t.cols))
	for i, c := range t.cols {
		names[i] = quote(c.name)
	}
	vals := make([]any, len(t.cols))
	dst := make([]any, len(t.cols))
	for i := range vals {
		dst[i] = &vals[i]
	}
	err = eachRow(e.ctx, tx, `SELECT `+strings.Join(names, ", ")+` FROM `+quote(t.name)+` WHERE `+t.mine+` ORDER BY 1`, func(scan func(...any) error) error {
		if err := scan(dst...); err != nil {
			return err
		}
		line, err := encodeRow(e.s.db.keys, t, vals)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
		n++
		for i, c := range t.cols {
			if !slices.Contains(e.refs, BlobColumn{t.name, c.name}) {
				continue
			}
			b, ok := vals[i].([]byte)
			if s, text := vals[i].(string); text {
				b, ok = []byte(s), true
			}
			if sum, named := blobSum(b); ok && named {
				e.blobs[sum] = true
			}
		}
		if md >= 0 {
			return e.markdown(Markdown[md], t, vals)
		}
		return nil
	}, bind(t.args(identity.UserID(e.ctx)))...)
	return n, err
}

func (e *exporter) markdown(m MarkdownTable, t exportTable, vals []any) error {
	get := func(col string) string {
		i := slices.IndexFunc(t.cols, func(c column) bool { return c.name == col })
		if i < 0 || col == "" {
			return ""
		}
		s, _ := vals[i].(string)
		return s
	}
	id := t.wire(t.cols[0], vals[0])
	name, _ := id.(string)
	title := get(m.Title)
	if title == "" {
		title = name
	}
	body := get(m.Body)
	if lang := get(m.Code); lang != "" {
		fence := "```"
		for strings.Contains(body, fence) {
			fence += "`"
		}
		body = fence + lang + "\n" + body + "\n" + fence
	}
	return e.write(filepath.Join("markdown", t.name, name+".md"), []byte("# "+strings.Join(strings.Fields(title), " ")+"\n\n"+body+"\n"))
}

func (e *exporter) copyBlobs() error {
	for sum := range e.blobs {
		ref := Ref{SHA256: sum}
		src := e.s.db.blobs.path(sum)
		if !exists(src) {
			continue // not downloaded yet: the hub has it
		}
		dst := filepath.Join(e.tmp, "blobs", ref.String())
		if err := os.MkdirAll(filepath.Dir(dst), 0o700); err != nil {
			return err
		}
		if err := copyFile(dst, src); err != nil {
			return err
		}
		e.r.Files++
	}
	return nil
}

// Import adds the rows of an export to the caller's data. Ids are kept; rows that already exist are
// skipped and counted. The import is one transaction, so it is applied completely or not at all.
func (s *Service) Import(ctx context.Context, p ImportParams) (_ ImportResult, err error) {
	r := ImportResult{Inserted: map[string]int64{}, Skipped: map[string]int64{}}
	ctx, done, err := s.exclusive(ctx, "import")
	if err != nil {
		return r, err
	}
	defer func() { done(err) }()
	var f exportFormat
	if err := readJSONFile(filepath.Join(p.Dir, "export.json"), &f); err != nil || !filepath.IsAbs(p.Dir) {
		return r, fault.Invalidf("The folder does not hold an export of Helix.").WithCause(err)
	}
	if f.Format != 1 {
		return r, fault.Invalidf("The export has format %d; this Helix reads format 1.", f.Format)
	}
	if !p.DryRun {
		if err := s.importBlobs(ctx, filepath.Join(p.Dir, "blobs")); err != nil {
			return r, err
		}
	}
	err = s.db.Write(ctx, func(tx *Tx) error {
		if err := s.importRows(tx, p.Dir, &r); err != nil {
			return err
		}
		if p.DryRun {
			return errDryRun
		}
		return s.db.o.Audit.write(tx, "data.import", map[string]any{"inserted": r.Inserted, "skipped": r.Skipped})
	})
	if errors.Is(err, errDryRun) {
		err = nil
	}
	return r, err
}

var errDryRun = errors.New("dry run")

func (s *Service) importBlobs(ctx context.Context, dir string) error {
	es, err := readDirIf(dir)
	if err != nil {
		return err
	}
	for _, e := range es {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		ref, err := s.db.blobs.Put(ctx, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		if ref.String() != e.Name() {
			return fault.Invalidf("The file blobs/%s does not have the content of its name.", e.Name())
		}
	}
	return nil
}

// importRows reads the file of every table. References are checked at the end because tables may
// refer to each other in any order.
func (s *Service) importRows(tx *Tx, dir string, r *ImportResult) error {
	if _, err := tx.Exec(`PRAGMA defer_foreign_keys = ON`); err != nil {
		return err
	}
	ts, err := exportTables(tx.ctx, tx)
	if err != nil {
		return err
	}
	rep := s.progress(tx.ctx, "import")
	var total int64
	for _, t := range ts {
		path := filepath.Join(dir, "data", t.name+".jsonl")
		f, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = s.importTable(tx, t, f, r, func() {
			if total++; total%1000 == 0 {
				rep.rows(t.name, total, 0)
			}
		})
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return dropDanglingRows(tx, ts, r)
}

func (s *Service) importTable(tx *Tx, t exportTable, f io.Reader, r *ImportResult, step func()) error {
	cols := slices.Clone(t.cols)
	names, marks := make([]string, 0, len(cols)+1), make([]string, 0, len(cols)+1)
	for _, c := range cols {
		names, marks = append(names, quote(c.name)), append(marks, "?")
	}
	if t.direct {
		names, marks = append(names, "user_id"), append(marks, "?")
	}
	// ON CONFLICT without a target skips a row that exists or whose name is taken; a violated CHECK
	// still fails.
	stmt, err := tx.PrepareContext(tx.ctx, `INSERT INTO `+quote(t.name)+` (`+strings.Join(names, ", ")+`) VALUES (`+strings.Join(marks, ", ")+`) ON CONFLICT DO NOTHING`)
	if err != nil {
		return err
	}
	defer stmt.Close()
	user := identity.UserID(tx.ctx)
	rd := bufio.NewReaderSize(f, 1<<18)
	for line := 1; ; line++ {
		raw, err := rd.ReadBytes('\n')
		if raw = bytes.TrimSpace(raw); len(raw) > 0 {
			vals, derr := decodeRow(s.db.keys, t, raw)
			if derr != nil {
				return fault.Invalidf("data/%s.jsonl, line %d: %v. Nothing was changed.", t.name, line, derr)
			}
			if t.direct {
				vals = append(vals, user)
			}
			res, xerr := stmt.ExecContext(tx.ctx, bind(vals)...)
			if xerr != nil {
				return fmt.Errorf("import %s line %d: %w", t.name, line, xerr)
			}
			if n, _ := res.RowsAffected(); n > 0 {
				r.Inserted[t.name]++
			} else {
				r.Skipped[t.name]++
			}
			step()
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if r.Inserted[t.name] > 0 {
		publishMany(tx, t.name)
	}
	return nil
}

// dropDanglingRows removes rows that were just imported and refer to a row that is missing or
// belongs to someone else. It repeats until nothing changes, since other rows may refer to a
// removed row.
func dropDanglingRows(tx *Tx, ts []exportTable, r *ImportResult) error {
	user := identity.UserID(tx.ctx)
	for again := true; again; {
		again = false
		for _, t := range ts {
			if r.Inserted[t.name] == 0 || !t.direct {
				continue
			}
			var conds []string
			if err := eachRow(tx.ctx, tx, `SELECT f."table", f."from", coalesce(f."to", 'id'), EXISTS (SELECT 1 FROM pragma_table_info(f."table") c WHERE c.name = 'user_id')
				FROM pragma_foreign_key_list(?) f WHERE f."from" <> 'user_id'`, func(scan func(...any) error) error {
				var parent, from, to string
				var direct bool
				if err := scan(&parent, &from, &to, &direct); err != nil {
					return err
				}
				own := ""
				if direct {
					own = ` AND p.user_id = ` + quote(t.name) + `.user_id`
				}
				conds = append(conds, quote(from)+` IS NOT NULL AND NOT EXISTS (SELECT 1 FROM `+quote(parent)+` p WHERE p.`+quote(to)+` = `+quote(t.name)+`.`+quote(from)+own+`)`)
				return nil
			}, t.name); err != nil {
				return err
			}
			if len(conds) == 0 {
				continue
			}
			err := tx.WithoutCapture(func() error {
				res, err := tx.Exec(`DELETE FROM `+quote(t.name)+` WHERE user_id = ? AND ((`+strings.Join(conds, `) OR (`)+`))`, user)
				if err != nil {
					return err
				}
				n, err := res.RowsAffected()
				if n > 0 {
					r.Inserted[t.name] -= n
					r.Skipped[t.name] += n
					again = true
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
