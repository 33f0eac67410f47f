package discovery

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/openapi"
	"helix/backend/safehttp"
	"helix/backend/storage"
)

// sourceDirectory is the source of candidates from the user's catalogs.
const sourceDirectory = "directory"

// Limits of catalogs.
const (
	maxCatalogs = 20
	maxEntries  = 10_000 // of one catalog
	maxFiles    = 500    // of a folder
	maxFileSize = 8 << 20
	maxFolders  = 4 // levels
	listMaxAge  = 7 * 24 * time.Hour
	maxWords    = 4000 // bytes of searched text of an entry
)

// Catalog is a folder with API descriptions and manifests, or a list of APIs on the web, that is searched too.
type Catalog struct {
	ID        uuid.UUID  `json:"catalogId"`
	Kind      string     `json:"kind"`     // dir or list
	Location  string     `json:"location"` // path or address
	Entries   int        `json:"entries"`
	UpdatedAt *time.Time `json:"updatedAt,omitempty"` // when it was read
	Error     string     `json:"error,omitempty"`     // why it couldn't be read the last time; what it had before is still searched

	user      uuid.UUID
	list      []entry
	signature []byte
}

// CatalogsResult lists the catalogs.
type CatalogsResult struct {
	Catalogs []Catalog `json:"catalogs"`
}

const catalogColumns = `id, user_id, kind, location, entries, signature, error, read_at FROM discovery_catalog `

func scanCatalog(row storage.Row) (c Catalog, err error) {
	err = row.Scan(&c.ID, &c.user, &c.Kind, &c.Location, storage.JSON(&c.list), &c.signature, &c.Error, storage.TimePtr(&c.UpdatedAt))
	c.Entries = len(c.list)
	return c, err
}

// Catalogs lists the catalogs of the user.
func (s *Service) Catalogs(ctx context.Context, _ struct{}) (CatalogsResult, error) {
	list, err := s.catalogs(ctx)
	return CatalogsResult{orEmpty(list)}, err
}

func (s *Service) catalogs(ctx context.Context) (list []Catalog, err error) {
	return storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]Catalog, error) {
		return storage.Collect(tx.Select(`SELECT `+catalogColumns+`WHERE user_id = ? ORDER BY created_at, id`, identity.UserID(ctx)), scanCatalog)
	})
}

// CatalogAddParams name a folder or the address of a list.
type CatalogAddParams struct {
	Dir     string `json:"dir,omitempty"`     // a folder that the user chose
	ListURL string `json:"listUrl,omitempty"` // in the form of https://api.apis.guru/v2/list.json
}

// CatalogAdd adds a catalog and reads it. Its entries are only found: importing one needs an approval like any import. A
// list on the web needs the setting discovery.online.
func (s *Service) CatalogAdd(ctx context.Context, p CatalogAddParams) (CatalogsResult, error) {
	c := Catalog{ID: storage.NewID(), Kind: "dir", Location: p.Dir, user: identity.UserID(ctx)}
	if p.ListURL != "" {
		c.Kind, c.Location = "list", p.ListURL
	}
	if (p.Dir == "") == (p.ListURL == "") || len(c.Location) > 4000 {
		return CatalogsResult{}, fault.Invalidf("Provide either dir or listUrl.")
	}
	if err := s.readCatalog(ctx, &c, true); err != nil {
		return CatalogsResult{}, err
	}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		var n int
		if err := tx.QueryRow(`SELECT count(*) FROM discovery_catalog WHERE user_id = ?`, c.user).Scan(&n); err != nil {
			return err
		}
		if n >= maxCatalogs {
			return fault.Limitf("You have %d catalogs. Remove one first.", n)
		}
		r, err := tx.Exec(`INSERT INTO discovery_catalog (id, user_id, kind, location, entries, signature, read_at, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7) ON CONFLICT DO NOTHING`,
			c.ID, c.user, c.Kind, c.Location, rawJSON(c.list), c.signature, tx.Now)
		if err != nil {
			return err
		}
		if k, err := r.RowsAffected(); err != nil || k == 0 {
			if err == nil {
				err = fault.Conflictf("This catalog was already added.")
			}
			return err
		}
		return audit.Append(tx, audit.Entry{Action: "discovery.catalog_added", SubjectKind: string(Kind), SubjectID: c.ID.String(), Details: map[string]any{"kind": c.Kind, "entries": len(c.list)}})
	})
	if err != nil {
		return CatalogsResult{}, err
	}
	return s.Catalogs(ctx, struct{}{})
}

// CatalogParams name a catalog.
type CatalogParams struct {
	CatalogID uuid.UUID `json:"catalogId"`
}

// CatalogRemove removes a catalog. Tools that were imported from it stay.
func (s *Service) CatalogRemove(ctx context.Context, p CatalogParams) (CatalogsResult, error) {
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		r, err := tx.Exec(`DELETE FROM discovery_catalog WHERE id = ? AND user_id = ?`, p.CatalogID, identity.UserID(ctx))
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			if err == nil {
				err = errNoCatalog()
			}
			return err
		}
		tx.AfterCommit(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.lists, p.CatalogID)
		})
		return audit.Append(tx, audit.Entry{Action: "discovery.catalog_removed", SubjectKind: string(Kind), SubjectID: p.CatalogID.String()})
	})
	if err != nil {
		return CatalogsResult{}, err
	}
	return s.Catalogs(ctx, struct{}{})
}

func errNoCatalog() error { return fault.NotFoundf("Catalog not found.") }

// CatalogRefresh reads a catalog again. If that fails, its entries stay and the catalog has the error.
func (s *Service) CatalogRefresh(ctx context.Context, p CatalogParams) (CatalogsResult, error) {
	c, err := s.catalog(ctx, p.CatalogID)
	if err != nil {
		return CatalogsResult{}, err
	}
	if err := s.refresh(ctx, &c, true); err != nil {
		return CatalogsResult{}, err
	}
	return s.Catalogs(ctx, struct{}{})
}

func (s *Service) catalog(ctx context.Context, id uuid.UUID) (c Catalog, err error) {
	c, err = storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (Catalog, error) {
		return scanCatalog(tx.QueryRow(`SELECT `+catalogColumns+`WHERE id = ? AND user_id = ?`, id, identity.UserID(ctx)))
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = errNoCatalog()
	}
	return c, err
}

// refresh reads a catalog and stores what it has, or why it couldn't be read.
func (s *Service) refresh(ctx context.Context, c *Catalog, always bool) error {
	before := string(c.signature)
	rerr := s.readCatalog(ctx, c, always)
	text := ""
	if rerr != nil {
		text = fault.As(rerr).Message
	}
	if !always && text == c.Error && string(c.signature) == before {
		return nil
	}
	c.Error = text
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE discovery_catalog SET entries = ?, signature = ?, error = ?, read_at = ? WHERE id = ? AND user_id = ?`, rawJSON(orEmpty(c.list)), c.signature, text, tx.Now, c.ID, c.user)
		return err
	})
}

// readCatalog reads the entries of a catalog. Without always, a folder without changes isn't read again.
func (s *Service) readCatalog(ctx context.Context, c *Catalog, always bool) error {
	if c.Kind == "list" {
		list, err := s.readList(ctx, c.Location)
		if err == nil {
			c.list = list
		}
		return err
	}
	root, err := os.OpenRoot(c.Location)
	if err != nil {
		return fault.NotFoundf("Couldn't open the folder %.200s.", c.Location).WithCause(err)
	}
	defer root.Close()
	files, signature, err := filesOf(root.FS())
	if err != nil {
		return fault.Unavailablef("Couldn't read the folder %.200s.", c.Location).WithCause(err)
	}
	if !always && string(signature) == string(c.signature) {
		return nil
	}
	list, names := []entry{}, map[string]int{}
	for _, name := range files {
		if err := ctx.Err(); err != nil {
			return fault.As(err)
		}
		raw, err := readIn(root, name)
		if err != nil {
			continue // it is gone, or too large
		}
		e, ok := describeFile(raw)
		if !ok {
			continue
		}
		if names[e.Name]++; names[e.Name] > 1 {
			e.Name += fmt.Sprintf("-%d", names[e.Name])
		}
		e.File = name
		list = append(list, e)
	}
	c.list, c.signature = list, signature
	return nil
}

// filesOf lists the files that can be descriptions or manifests, and a hash of their names, sizes and times. It
// follows no links.
func filesOf(dir fs.FS) (files []string, signature []byte, err error) {
	h := sha256.New()
	err = fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if name == "." {
				return err
			}
			return nil // a folder that can't be read
		}
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || strings.Count(name, "/") >= maxFolders-1) {
				return fs.SkipDir
			}
			return nil
		}
		if x := path.Ext(name); !d.Type().IsRegular() || x != ".json" && x != ".yaml" && x != ".yml" {
			return nil
		}
		info, err := d.Info()
		if err != nil || info.Size() > maxFileSize {
			return nil
		}
		fmt.Fprintf(h, "%q %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		if files = append(files, name); len(files) >= maxFiles {
			return fs.SkipAll
		}
		return nil
	})
	return files, h.Sum(nil), err
}

// readIn reads a regular file of a folder.
func readIn(root *os.Root, name string) ([]byte, error) {
	st, err := root.Lstat(filepath.FromSlash(name))
	if err != nil || !st.Mode().IsRegular() {
		return nil, fault.NotFoundf("%.200s isn't a regular file of the folder.", name).WithCause(err)
	}
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, fault.NotFoundf("Couldn't open %.200s.", name).WithCause(err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err == nil && len(raw) > maxFileSize {
		err = fault.Limitf("%.200s is larger than %d MiB.", name, maxFileSize>>20)
	}
	return raw, err
}

// describeFile returns the entry of a description or a manifest.
func describeFile(raw []byte) (e entry, ok bool) {
	doc, err := openapi.Decode(raw)
	if err != nil {
		return e, false
	}
	if doc["openapi"] == nil && doc["swagger"] == nil {
		if object(doc["permissions"]) == nil && doc["manifestVersion"] == nil {
			return e, false
		}
		o, err := readOutline(doc)
		if err != nil || !toolName.MatchString(o.name) {
			return e, false
		}
		return entry{Name: o.name, Title: o.name, Description: clipText(o.text, 300), Hosts: orEmpty(o.hosts), License: o.rights, Manifest: true, Words: strings.Join(o.operations, " ")}, true
	}
	d, err := openapi.Parse(raw, "")
	if err != nil {
		return e, false
	}
	info := object(doc["info"])
	text, _ := info["description"].(string)
	license, _ := object(info["license"])["name"].(string)
	e = entry{Name: slug(d.Title), Title: clipText(d.Title, 200), Description: clipText(text, 300), Hosts: []string{}, Auth: "none", License: clipText(license, 100)}
	for _, x := range d.Servers {
		if at, err := d.ServerURL(x, nil); err == nil {
			if host, err := hostOf(at); err == nil && !slices.Contains(e.Hosts, host) {
				e.Hosts = append(e.Hosts, host)
			}
		}
	}
	for _, x := range d.Schemes {
		if x.Kind != "" {
			e.Auth = x.Kind
			break
		}
	}
	var words strings.Builder
	for _, o := range d.Operations {
		if words.Len() > maxWords {
			break
		}
		words.WriteString(cmp.Or(o.Summary, o.Key) + " ")
	}
	e.Words = clipText(words.String(), maxWords)
	return e, true
}

// readList reads a list of APIs in the form of APIs.guru.
func (s *Service) readList(ctx context.Context, address string) ([]entry, error) {
	if !s.online() {
		return nil, fault.Deniedf("Lists of APIs on the web are off. Switch on the setting discovery.online first.")
	}
	r, err := s.fetch.Do(ctx, safehttp.Request{URL: address, Header: map[string][]string{"Accept": {"application/json"}}})
	if err != nil {
		return nil, err
	}
	if r.Status != 200 {
		return nil, fault.Unavailablef("Couldn't get the list: the server answered %d.", r.Status)
	}
	type version struct {
		URL  string `json:"swaggerUrl"`
		Info struct {
			Title       string   `json:"title"`
			Description string   `json:"description"`
			Provider    string   `json:"x-providerName"`
			Categories  []string `json:"x-apisguru-categories"`
			License     struct {
				Name string `json:"name"`
			} `json:"license"`
		} `json:"info"`
	}
	var list map[string]struct {
		Preferred string             `json:"preferred"`
		Versions  map[string]version `json:"versions"`
	}
	if err := json.Unmarshal(r.Body, &list); err != nil {
		return nil, fault.Invalidf("The list doesn't have the form of https://api.apis.guru/v2/list.json.").WithCause(err)
	}
	out := []entry{}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		v, ok := list[name].Versions[list[name].Preferred]
		if u, err := parseURL(v.URL); !ok || err != nil || u.Scheme != "https" || len(out) >= maxEntries {
			continue
		}
		host, _, _ := strings.Cut(name, ":")
		out = append(out, entry{
			Name: clipText(name, 100), Title: clipText(cmp.Or(v.Info.Title, name), 200), Description: clipText(v.Info.Description, 300), Tags: v.Info.Categories[:min(len(v.Info.Categories), 10)],
			Hosts: []string{clipText(cmp.Or(v.Info.Provider, host), 200)}, License: clipText(v.Info.License.Name, 100), URL: v.URL,
		})
	}
	if len(out) == 0 {
		return nil, fault.Invalidf("The list has no APIs in the form of https://api.apis.guru/v2/list.json.")
	}
	return out, nil
}

func (s *Service) online() bool { return s.o.Online != nil && s.o.Online() }

// SkippedSource is a catalog that couldn't be read for a search.
type SkippedSource struct {
	Source string `json:"source"` // its location
	Reason string `json:"reason"`
}

// cachedList is what the search needs of a list on the web that was read at some time.
type cachedList struct {
	at   time.Time
	docs []*document
}

// catalogDocuments returns what the user's catalogs have. A folder with changes is read again.
func (s *Service) catalogDocuments(ctx context.Context) (docs []*document, skipped []SkippedSource, err error) {
	list, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]Catalog, error) {
		return storage.Collect(tx.Select(`SELECT id, user_id, kind, location, CASE kind WHEN 'dir' THEN entries ELSE '[]' END, signature, error, read_at FROM discovery_catalog WHERE user_id = ? ORDER BY created_at, id`, identity.UserID(ctx)), scanCatalog)
	})
	if err != nil {
		return nil, nil, err
	}
	for i := range list {
		c := &list[i]
		var more []*document
		switch {
		case c.Kind == "dir":
			if err := s.refresh(ctx, c, false); err != nil {
				return nil, nil, err
			}
			more = c.documents()
		case !s.online():
			skipped = append(skipped, SkippedSource{c.Location, "Lists on the web are off (discovery.online)."})
			continue
		default:
			if more, err = s.listDocuments(ctx, c); err != nil {
				return nil, nil, err
			}
		}
		if c.Error != "" {
			skipped = append(skipped, SkippedSource{c.Location, c.Error})
		}
		docs = append(docs, more...)
	}
	return docs, skipped, nil
}

func (c *Catalog) documents() []*document {
	docs := make([]*document, len(c.list))
	for i := range c.list {
		e := &c.list[i]
		docs[i] = e.document()
		docs[i].Ref, docs[i].Source, docs[i].Manifest = sourceDirectory+":"+c.ID.String()+"/"+e.Name, sourceDirectory, e.Manifest
	}
	return docs
}

// listDocuments returns what a list on the web has, whose entries c lacks.
func (s *Service) listDocuments(ctx context.Context, c *Catalog) ([]*document, error) {
	s.mu.Lock()
	l := s.lists[c.ID]
	s.mu.Unlock()
	if l.docs != nil && c.UpdatedAt != nil && l.at.Equal(*c.UpdatedAt) {
		return l.docs, nil
	}
	full, err := s.catalog(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	l.docs = full.documents()
	if full.UpdatedAt != nil {
		l.at = *full.UpdatedAt
		s.mu.Lock()
		s.lists[c.ID] = l
		s.mu.Unlock()
	}
	return l.docs, nil
}

// inCatalog returns the entry of a reference such as directory:ID/name, and its text if it is a file of a folder.
func (s *Service) inCatalog(ctx context.Context, ref string) (e entry, raw []byte, err error) {
	id, name, _ := strings.Cut(strings.TrimPrefix(ref, sourceDirectory+":"), "/")
	key, err := uuid.Parse(id)
	if err != nil {
		return e, nil, errNoCatalog()
	}
	c, err := s.catalog(ctx, key)
	if err != nil {
		return e, nil, err
	}
	i := slices.IndexFunc(c.list, func(e entry) bool { return e.Name == name })
	if i < 0 {
		return e, nil, fault.NotFoundf("The catalog has no API named %.100q.", name)
	}
	e = c.list[i]
	if c.Kind == "list" {
		if !s.online() {
			return e, nil, fault.Deniedf("Lists of APIs on the web are off. Switch on the setting discovery.online first.")
		}
		return e, nil, nil
	}
	root, err := os.OpenRoot(c.Location)
	if err != nil {
		return e, nil, fault.NotFoundf("Couldn't open the folder %.200s.", c.Location).WithCause(err)
	}
	defer root.Close()
	raw, err = readIn(root, e.File)
	return e, raw, err
}

// refreshLists reads the lists on the web that are older than a week.
func (s *Service) refreshLists(ctx context.Context) {
	if !s.online() {
		return
	}
	old, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]Catalog, error) {
		return storage.Collect(tx.Select(`SELECT `+catalogColumns+`WHERE kind = 'list' AND read_at < ?`, tx.Now.Add(-listMaxAge)), scanCatalog)
	})
	for i := range old {
		if err == nil {
			err = s.refresh(s.inBackground(ctx, old[i].user), &old[i], true)
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("refresh the lists of APIs", "err", err)
	}
}
