package psychology

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// files lists which entries each file of an export contains.
var files = []struct {
	name string
	of   func(Entry) bool
}{
	{"psychology/psyeval.json", func(e Entry) bool { return e.LayerNumber == 1 || e.LayerNumber == 5 }},
	{"psychology/emotional_tags.json", func(e Entry) bool { return e.LayerNumber == 2 }},
	{"psychology/attachments.json", func(e Entry) bool { return e.LayerNumber == 3 }},
	{"identity/goals.json", func(e Entry) bool { return e.Kind == "goal" || e.Kind == "hope" || e.Kind == "value" }},
	{"identity/feared_self.json", func(e Entry) bool { return e.Kind == "feared_self" }},
	{"identity/possible_selves.json", func(e Entry) bool { return e.Kind == "possible_self" }},
	{"transformation/current_state.json", func(e Entry) bool { return e.LayerNumber == 6 && !ended(e) }},
	{"transformation/history.json", func(e Entry) bool { return e.LayerNumber == 6 && ended(e) }},
	{"purpose/ikigai.json", func(e Entry) bool { return e.Kind == "ikigai" }},
	{"purpose/wellness.json", func(e Entry) bool { return e.Kind == "wellness" }},
	{"purpose/meaning_sources.json", func(e Entry) bool { return e.Kind == "meaning_source" }},
}

const (
	trustFile = "psychology/trust_map.json"
	maxFile   = 64 << 20
)

func ended(e Entry) bool {
	var d struct {
		EndedAt string `json:"endedAt"`
	}
	return json.Unmarshal(e.Data, &d) == nil && d.EndedAt != ""
}

// document is the content of one file.
type document struct {
	Version      int           `json:"version"`
	Entries      []fileEntry   `json:"entries,omitempty"`
	Interactions []Interaction `json:"interactions,omitempty"`
}

// fileEntry is an entry in a file.
type fileEntry struct {
	ID                 uuid.UUID       `json:"id"`
	LayerNumber        int             `json:"layerNumber"`
	Kind               string          `json:"kind"`
	Data               json.RawMessage `json:"data"`
	MemoryIDs          []uuid.UUID     `json:"memoryIds"`
	Origin             string          `json:"origin"`
	PatternID          *uuid.UUID      `json:"patternId,omitempty"`
	InitialStrength    float64         `json:"initialStrength"`
	LastReinforcedAt   *time.Time      `json:"lastReinforcedAt,omitempty"`
	ReinforcementCount int64           `json:"reinforcementCount"`
	SalienceTier       string          `json:"salienceTier"`
	Pinned             bool            `json:"pinned"`
	Retention          *float64        `json:"retention,omitempty"` // of pinned entries
	CreatedAt          time.Time       `json:"createdAt"`
	UpdatedAt          time.Time       `json:"updatedAt"`
}

// collect builds the files of an export.
func (s *Service) collect(ctx context.Context) (out map[string][]byte, n Counts, err error) {
	out = map[string][]byte{}
	put := func(name string, d document) error {
		b, err := json.MarshalIndent(d, "", "  ")
		out[name] = append(b, '\n')
		return err
	}
	return out, n, s.db.Read(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		conf, err := settings(tx, user)
		if err != nil {
			return err
		}
		rows, err := s.rows(tx, conf, "true")
		if err != nil {
			return err
		}
		slices.Reverse(rows)
		for _, f := range files {
			d := document{Version: 1}
			for _, r := range rows {
				if !f.of(r.Entry) {
					continue
				}
				if r.Problem != "" {
					n.Skipped++
					continue
				}
				e := fileEntry{r.ID, r.LayerNumber, r.Kind, r.Data, r.MemoryIDs, r.Origin, r.PatternID, r.InitialStrength, r.LastReinforcedAt, r.ReinforcementCount, r.SalienceTier, r.Pinned, nil, r.CreatedAt, r.UpdatedAt}
				if r.Pinned {
					e.Retention = r.stored
				}
				d.Entries = append(d.Entries, e)
			}
			n.Entries += len(d.Entries)
			if err := put(f.name, d); err != nil {
				return err
			}
		}
		d := document{Version: 1}
		if d.Interactions, err = s.readInteractions(tx, "true ORDER BY at, id"); err != nil {
			return err
		}
		n.Interactions = len(d.Interactions)
		if err := put(trustFile, d); err != nil {
			return err
		}
		soul, err := s.soul(tx)
		out[soulFile] = []byte(soul.Text)
		return err
	})
}

// Export writes the files atomically below the folder of the person's own files; with Zip it
// creates one file to download instead. Entries that cannot be read are counted.
func (s *Service) Export(ctx context.Context, p ExportParams) (out ExportResult, err error) {
	if !p.Zip && !s.ownsFiles(ctx) {
		return out, errNotOwner()
	}
	if err := s.syncSoulFile(ctx); err != nil {
		return out, err
	}
	content, n, err := s.collect(ctx)
	if err != nil {
		return out, err
	}
	out.Counts, out.Files = n, len(content)
	names := make([]string, 0, len(content))
	for name := range content {
		names = append(names, name)
	}
	slices.Sort(names)
	if p.Zip {
		var buf bytes.Buffer
		w := zip.NewWriter(&buf)
		for _, name := range names {
			f, err := w.Create(name)
			if err != nil {
				return out, err
			}
			if _, err := f.Write(content[name]); err != nil {
				return out, err
			}
		}
		if err := w.Close(); err != nil {
			return out, err
		}
		ref, err := s.db.Blobs().PutBytes(ctx, buf.Bytes())
		out.BlobID = ref.String()
		return out, err
	}
	dir, err := s.within(p.Path)
	if err != nil {
		return out, err
	}
	r, err := s.root(true)
	if err != nil {
		return out, err
	}
	defer r.Close()
	for _, name := range names {
		if err := writeFile(r, path.Join(dir, name), content[name]); err != nil {
			return out, err
		}
	}
	out.Path = filepath.Join(s.o.Dir, filepath.FromSlash(dir))
	return out, nil
}

// within returns a path relative to the folder of the person's own files. Symbolic links in it are
// handled by os.Root.
func (s *Service) within(p string) (string, error) {
	if p == "" {
		return ".", nil
	}
	if filepath.IsAbs(p) {
		rel, err := filepath.Rel(s.o.Dir, p)
		if err != nil {
			rel = ".."
		}
		p = rel
	}
	if !filepath.IsLocal(p) {
		return "", fault.InvalidField("path", fault.CodeInvalid, "The folder must be in %s.", s.o.Dir)
	}
	return filepath.ToSlash(filepath.Clean(p)), nil
}

// Import reads the files of an export, from below the folder of the person's own files or from a
// file packed by Export. Everything is validated before anything is written. Existing entries are
// replaced by those in the file. The soul is not imported, because only a person may change it.
func (s *Service) Import(ctx context.Context, p ImportParams) (Counts, error) {
	if p.BlobID != "" {
		sum, err := hex.DecodeString(p.BlobID)
		if err != nil || len(sum) != 32 {
			return Counts{}, fault.InvalidField("blobId", fault.CodeInvalid, "This is not the id of a stored file.")
		}
		f, err := s.db.Blobs().Open(storage.Ref{SHA256: [32]byte(sum)})
		if err != nil {
			return Counts{}, err
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
		if err != nil {
			return Counts{}, err
		}
		return s.ImportZip(ctx, b)
	}
	if !s.ownsFiles(ctx) {
		return Counts{}, errNotOwner()
	}
	dir, err := s.within(p.Path)
	if err != nil {
		return Counts{}, err
	}
	r, err := s.root(false)
	if err != nil {
		return Counts{}, err
	}
	defer r.Close()
	return s.importFiles(ctx, func(name string) ([]byte, error) { return readSmall(r, path.Join(dir, name), maxFile) })
}

// ImportFolder is Import from a folder with the layout of an export.
func (s *Service) ImportFolder(ctx context.Context, dir string) (Counts, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return Counts{}, fault.Unavailablef("The folder can't be read. Nothing was imported.").WithCause(err)
	}
	defer r.Close()
	return s.importFiles(ctx, func(name string) ([]byte, error) { return readSmall(r, name, maxFile) })
}

// ImportZip is Import from the content of a packed file.
func (s *Service) ImportZip(ctx context.Context, packed []byte) (Counts, error) {
	if len(packed) > maxFile {
		return Counts{}, fault.Limitf("The file has more than %d MiB.", maxFile>>20)
	}
	z, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return Counts{}, fault.Invalidf("This is no export of psychology.").WithCause(err)
	}
	return s.importFiles(ctx, func(name string) ([]byte, error) {
		f, err := z.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
		if err == nil && len(b) > maxFile {
			err = fault.Limitf("%s has more than %d MiB.", name, maxFile>>20)
		}
		return b, err
	})
}

func (s *Service) importFiles(ctx context.Context, read func(name string) ([]byte, error)) (n Counts, err error) {
	var all document
	for _, name := range append([]string{trustFile}, fileNames()...) {
		b, err := read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return n, err
		}
		n.Files++
		var d document
		if err := json.Unmarshal(b, &d); err != nil || d.Version != 1 {
			return n, fault.Invalidf("%s can't be read. Nothing was imported.", name).WithCause(err)
		}
		for i, e := range d.Entries {
			if err := s.checkFileEntry(ctx, e); err != nil {
				return n, fault.Invalidf("%s, entry %d: %s Nothing was imported.", name, i+1, fault.As(err).Message).WithCause(err)
			}
		}
		for i, x := range d.Interactions {
			if !x.plausible() {
				return n, fault.Invalidf("%s, interaction %d: a value is missing or out of range. Nothing was imported.", name, i+1)
			}
		}
		all.Entries = append(all.Entries, d.Entries...)
		all.Interactions = append(all.Interactions, d.Interactions...)
	}
	if n.Files == 0 {
		return n, fault.NotFoundf("There are no files of psychology in this place.")
	}
	if len(all.Entries) > maxEntries {
		return n, fault.Limitf("The files hold %d entries; at most %d are possible. Nothing was imported.", len(all.Entries), maxEntries)
	}
	return n, s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		if err := s.ensureLayers(tx, user); err != nil {
			return err
		}
		for _, e := range all.Entries {
			if len(e.MemoryIDs) > 0 { // only those that exist here
				found, err := s.memory.DecayingTx(ctx, tx, uuid.Nil, len(e.MemoryIDs), e.MemoryIDs...)
				if err != nil {
					return err
				}
				e.MemoryIDs = nil
				for _, d := range found {
					e.MemoryIDs = append(e.MemoryIDs, d.ID)
				}
			}
			sealed, err := s.db.Keys().Seal("psychology_entries", "data", e.ID, e.Data)
			if err != nil {
				return err
			}
			ids, err := json.Marshal(append([]uuid.UUID{}, e.MemoryIDs...))
			if err != nil {
				return err
			}
			r, err := tx.Exec(`INSERT INTO psychology_entries (id, user_id, layer_number, kind, data, memory_ids, origin, pattern_id, initial_strength, last_reinforced_at, reinforcement_count, salience_tier, pinned, retention, created_at, updated_at)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT (id) DO UPDATE SET data = excluded.data, memory_ids = excluded.memory_ids, initial_strength = excluded.initial_strength, last_reinforced_at = excluded.last_reinforced_at, reinforcement_count = excluded.reinforcement_count,
					salience_tier = excluded.salience_tier, pinned = excluded.pinned, retention = excluded.retention, updated_at = excluded.updated_at, deleted_at = NULL, version = version + 1
				WHERE user_id = excluded.user_id AND layer_number = excluded.layer_number AND kind = excluded.kind`,
				e.ID, user, e.LayerNumber, e.Kind, sealed, string(ids), e.Origin, e.PatternID, e.InitialStrength, e.LastReinforcedAt, e.ReinforcementCount, e.SalienceTier, e.Pinned, e.Retention, e.CreatedAt, e.UpdatedAt)
			if err != nil {
				return err
			}
			if k, err := r.RowsAffected(); err != nil || k == 0 {
				return errors.Join(err, fault.Conflictf("The entry %s is another one here. Nothing was imported.", e.ID))
			}
			n.Entries++
		}
		for _, x := range all.Interactions {
			if err := s.insertInteraction(tx, x); err != nil {
				return err
			}
			n.Interactions++
		}
		conf, err := settings(tx, user)
		if err != nil {
			return err
		}
		people, err := s.rows(tx, conf, "kind = 'person'")
		if err != nil {
			return err
		}
		for _, p := range people {
			if p.Problem != "" {
				continue
			}
			if err := s.storeTrust(tx, p); err != nil {
				return err
			}
		}
		s.changed(tx, user, nil)
		return audit.Append(tx, audit.Entry{Action: "psychology.import", SubjectKind: "psychology", SubjectID: "import", Details: n})
	})
}

// plausible reports whether an interaction from a file can be stored.
func (x Interaction) plausible() bool {
	_, tier := tierTrust[x.SalienceTier]
	dimension := x.Dimension == "" || slices.ContainsFunc(trustDimensions, func(d trustDimension) bool { return d.name == x.Dimension })
	evidence := x.Evidence == nil || *x.Evidence >= -1 && *x.Evidence <= 1
	return tier && dimension && evidence && x.ID != uuid.Nil && x.PersonID != uuid.Nil && x.Before >= 0 && x.Before <= 1 && x.After >= 0 && x.After <= 1 &&
		len(x.Note) <= maxNote && x.At.Before(time.Now().Add(time.Hour))
}

func fileNames() (out []string) {
	for _, f := range files {
		out = append(out, f.name)
	}
	return out
}

func (s *Service) checkFileEntry(ctx context.Context, e fileEntry) error {
	kind, err := s.kindOf(e.LayerNumber, e.Kind)
	if err != nil {
		return err
	}
	_, tier := tierPace[e.SalienceTier]
	switch {
	case e.ID == uuid.Nil || e.CreatedAt.IsZero():
		return fault.Invalidf("The id or the date is missing.")
	case !tier, !(e.InitialStrength >= 0 && e.InitialStrength <= 1), e.Retention != nil && !(*e.Retention >= 0 && *e.Retention <= 1), e.ReinforcementCount < 0 || e.ReinforcementCount > 1e9:
		return fault.Invalidf("A value is out of range.")
	case !slices.Contains([]string{"person", "synthesis", "import"}, e.Origin):
		return fault.Invalidf("The origin %q is not known.", e.Origin)
	}
	return kind.checkData(ctx, e.Data)
}
