package discovery

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/jcs"
	"helix/backend/openapi"
	"helix/backend/safehttp"
	"helix/backend/storage"
)

// Source is where a description comes from: exactly one of its fields.
type Source struct {
	Path    string `json:"path,omitempty"`    // a file that the user chose
	Content string `json:"content,omitempty"` // the text itself
	URL     string `json:"url,omitempty"`     // https, or a reference that discovery.search returned, such as catalog:open-meteo
}

// InspectParams name a description.
type InspectParams = Source

// Inspection is what a description contains. Its texts come from outside.
type Inspection struct {
	SpecID   string            `json:"specId"` // SHA-256 of the description
	Title    string            `json:"title"`
	Version  string            `json:"version"`
	OpenAPI  string            `json:"openapi"`
	Servers  []openapi.Server  `json:"servers"`
	Auth     []openapi.Scheme  `json:"auth"`
	Tags     []TagCount        `json:"tags"`
	Counts   Counts            `json:"counts"`
	Tokens   int64             `json:"tokens"` // of the declarations of all operations
	Warnings []openapi.Warning `json:"warnings"`
	Skipped  []openapi.Warning `json:"skipped"` // operations that cannot be used
}

// TagCount is a tag with the operations that have it.
type TagCount struct {
	Name       string `json:"name"`
	Operations int    `json:"operations"`
	Tokens     int64  `json:"tokens"`
}

// Counts are numbers of operations.
type Counts struct {
	Operations int `json:"operations"`
	Skipped    int `json:"skipped"`
	Deprecated int `json:"deprecated"`
	ReadOnly   int `json:"readOnly"`
}

// OperationInfo is one operation of a description or of a tool.
type OperationInfo struct {
	Key         string   `json:"key"`  // method and path
	Name        string   `json:"name"` // in the tool
	Method      string   `json:"method"`
	Path        string   `json:"path"`
	Summary     string   `json:"summary"`
	Tags        []string `json:"tags"`
	Deprecated  bool     `json:"deprecated"`
	Tier        string   `json:"tier"`
	Idempotent  bool     `json:"idempotent"`
	Destructive bool     `json:"destructive"`
	Auth        []string `json:"auth"` // names of schemes, any of which may be needed
	Tokens      int64    `json:"tokens"`
	Paginated   bool     `json:"paginated"`
}

type specKey struct {
	user uuid.UUID
	id   string
}

// spec is the index of an inspected description. The description itself is a blob.
type spec struct {
	Inspection
	operations []OperationInfo
	location   string
	bytes      int64
}

// InspectOpenAPI reads an API description and returns what it contains. It changes nothing but keeps the
// description for a day, so that operations can be listed and imported.
func (s *Service) InspectOpenAPI(ctx context.Context, p InspectParams) (Inspection, error) {
	raw, location, err := s.read(ctx, p)
	if err != nil {
		return Inspection{}, err
	}
	x, err := s.index(ctx, raw, location)
	if err != nil {
		return Inspection{}, err
	}
	if _, err := s.db.Blobs().PutBytes(ctx, raw); err != nil {
		return Inspection{}, err
	}
	s.specs.Put(specKey{identity.UserID(ctx), x.SpecID}, x)
	return x.Inspection, nil
}

// read returns the text of a description and where it came from.
func (s *Service) read(ctx context.Context, p Source) (raw []byte, location string, err error) {
	given := 0
	for _, v := range []string{p.Path, p.Content, p.URL} {
		if v != "" {
			given++
		}
	}
	if given != 1 {
		return nil, "", fault.Invalidf("Provide exactly one of path, content and url.")
	}
	if name, ok := strings.CutPrefix(p.URL, sourceCatalog+":"); ok {
		e, err := entryNamed(name)
		if err != nil || e.Spec != nil {
			return e.Spec, p.URL, err
		}
		p.URL = e.URL
	}
	if strings.HasPrefix(p.URL, sourceDirectory+":") {
		e, raw, err := s.inCatalog(ctx, p.URL)
		if err != nil || raw != nil {
			return raw, p.URL, err
		}
		p.URL = e.URL
	}
	switch {
	case p.URL != "":
		r, err := s.fetch.Do(ctx, safehttp.Request{URL: p.URL, Header: map[string][]string{"Accept": {"application/json, application/yaml;q=0.9, */*;q=0.5"}}})
		if err != nil {
			return nil, "", err
		}
		if r.Status != 200 {
			return nil, "", fault.Unavailablef("Couldn't get the API description: the server answered %d.", r.Status)
		}
		return r.Body, r.URL, nil
	case p.Path != "":
		raw, err := readFile(p.Path)
		return raw, filepath.Base(p.Path), err
	}
	return []byte(p.Content), "", nil
}

// readFile reads a regular file without following a link in its last part.
func readFile(path string) ([]byte, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, fault.NotFoundf("Couldn't open the file: its folder isn't there.").WithCause(err)
	}
	defer root.Close()
	st, err := root.Lstat(filepath.Base(path))
	if err != nil {
		return nil, fault.NotFoundf("Couldn't open the file: it isn't there.").WithCause(err)
	}
	if !st.Mode().IsRegular() {
		return nil, fault.Invalidf("%s isn't a regular file.", filepath.Base(path))
	}
	f, err := root.Open(filepath.Base(path))
	if err != nil {
		return nil, fault.Unavailablef("Couldn't open the file.").WithCause(err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, openapi.MaxBytes+1))
	if err != nil {
		return nil, fault.Unavailablef("Couldn't read the file.").WithCause(err)
	}
	return raw, nil
}

// index reads a description and describes its operations.
func (s *Service) index(ctx context.Context, raw []byte, location string) (*spec, error) {
	d, err := openapi.Parse(raw, location)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	x := &spec{location: location, Inspection: Inspection{
		SpecID: hex.EncodeToString(sum[:]), Title: d.Title, Version: d.Version, OpenAPI: d.Dialect, Servers: d.Servers, Auth: orEmpty(d.Schemes),
		Warnings: orEmpty(d.Warnings), Skipped: orEmpty(d.Skipped), Tags: []TagCount{},
	}}
	if x.operations, err = s.describe(ctx, d, slug(d.Title), d.Operations); err != nil {
		return nil, err
	}
	tags := map[string]*TagCount{}
	for _, o := range x.operations {
		x.Counts.Operations++
		x.Tokens += o.Tokens
		if o.Deprecated {
			x.Counts.Deprecated++
		}
		if o.Tier == "readOnly" {
			x.Counts.ReadOnly++
		}
		for _, name := range o.Tags {
			if tags[name] == nil {
				tags[name] = &TagCount{Name: name}
			}
			tags[name].Operations++
			tags[name].Tokens += o.Tokens
		}
		x.bytes += int64(len(o.Key)+len(o.Path)+len(o.Name)+len(o.Summary)) + 300
	}
	x.Counts.Skipped = len(d.Skipped)
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		x.Tags = append(x.Tags, *tags[name])
	}
	return x, nil
}

// describe returns what callers see of operations.
func (s *Service) describe(ctx context.Context, d *openapi.Document, tool string, ops []openapi.Operation) ([]OperationInfo, error) {
	names := openapi.Names(tool, ops)
	out := make([]OperationInfo, 0, len(ops))
	for i, o := range ops {
		if err := ctx.Err(); err != nil {
			return nil, fault.As(err)
		}
		plan, err := d.Plan(o.Key)
		if err != nil {
			continue // its body cannot be written
		}
		declaration, err := jcs.Marshal(map[string]any{"name": names[i], "description": cmp.Or(o.Summary, o.Description), "parameters": plan.Input})
		if err != nil {
			return nil, err
		}
		auth := []string{}
		for _, a := range o.Security {
			for _, n := range a {
				if !slices.Contains(auth, n) {
					auth = append(auth, n)
				}
			}
		}
		out = append(out, OperationInfo{
			Key: strings.Clone(o.Key), Name: strings.Clone(names[i][len(tool)+1:]), Method: o.Method, Path: strings.Clone(o.Path), Summary: clipText(strings.Clone(o.Summary), 300),
			Tags: orEmpty(cloneAll(o.Tags)), Deprecated: o.Deprecated, Tier: o.Effects.Tier(), Idempotent: o.Effects.Idempotent, Destructive: o.Effects.Destructive,
			Auth: cloneAll(auth), Tokens: s.o.Tokens(ctx, string(declaration)), Paginated: o.Paginated,
		})
	}
	return out, nil
}

// cloneAll copies texts, so that they don't keep the whole description in memory.
func cloneAll(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.Clone(s)
	}
	return out
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// spec returns the index of a description that the user has inspected.
func (s *Service) spec(ctx context.Context, id string) (*spec, error) {
	key := specKey{identity.UserID(ctx), id}
	if x, ok := s.specs.Get(key); ok {
		return x, nil
	}
	return nil, fault.NotFoundf("This API description is no longer open. Inspect it again.")
}

// description returns the text of an inspected description.
func (s *Service) description(x *spec) ([]byte, error) {
	return s.blob(x.SpecID)
}

func (s *Service) blob(sum string) ([]byte, error) {
	var ref storage.Ref
	raw, err := hex.DecodeString(strings.TrimPrefix(sum, "sha256:"))
	if err != nil || len(raw) != len(ref.SHA256) {
		return nil, fault.Invalidf("%.80q isn't the SHA-256 of a file.", sum)
	}
	copy(ref.SHA256[:], raw)
	f, err := s.db.Blobs().Open(ref)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.LimitReader(f, openapi.MaxBytes+1)); err != nil {
		return nil, fault.Unavailablef("Couldn't read a stored file.").WithCause(err)
	}
	return b.Bytes(), nil
}

// OperationsParams choose operations of a description or of a tool.
type OperationsParams struct {
	SpecID     string     `json:"specId,omitempty"`
	ManifestID *uuid.UUID `json:"manifestId,omitempty"`
	Query      string     `json:"query,omitempty"` // words of the name, path or summary
	Tag        string     `json:"tag,omitempty"`
	Method     string     `json:"method,omitempty"`
	Limit      int        `json:"limit,omitempty"` // 1..100, default 50
	Offset     int        `json:"offset,omitempty"`
}

// OperationsResult is one page of operations, by path.
type OperationsResult struct {
	Operations []OperationInfo `json:"operations"`
	Total      int             `json:"total"`
}

// Operations lists the operations of an inspected description, or of a tool.
func (s *Service) Operations(ctx context.Context, p OperationsParams) (OperationsResult, error) {
	out := OperationsResult{Operations: []OperationInfo{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	if (p.SpecID == "") == (p.ManifestID == nil) {
		return out, fault.Invalidf("Provide either specId or manifestId.")
	}
	var list []OperationInfo
	if p.ManifestID != nil {
		t, err := s.load(ctx, *p.ManifestID)
		if err != nil {
			return out, err
		}
		if list, err = s.operationsOf(ctx, t); err != nil {
			return out, err
		}
	} else {
		x, err := s.spec(ctx, p.SpecID)
		if err != nil {
			return out, err
		}
		list = x.operations
	}
	words := strings.Fields(strings.ToLower(p.Query))
	for _, o := range list {
		hay := strings.ToLower(o.Name + " " + o.Path + " " + o.Summary)
		if p.Tag != "" && !slices.Contains(o.Tags, p.Tag) || p.Method != "" && !strings.EqualFold(o.Method, p.Method) ||
			slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(hay, w) }) {
			continue
		}
		if out.Total++; out.Total > p.Offset && len(out.Operations) < p.Limit {
			out.Operations = append(out.Operations, o)
		}
	}
	return out, nil
}

func parseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, fault.Invalidf("The address isn't valid.")
	}
	return u, nil
}

func rawJSON(v any) json.RawMessage {
	raw, err := jcs.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}
