package discovery

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"

	"helix/backend/fault"
	"helix/backend/openapi"
	"helix/backend/storage"
)

// The sources of candidates.
const (
	sourceCatalog  = "catalog"  // comes with Helix
	sourceImported = "imported" // the user's own tools
)

//go:embed directory
var directoryFiles embed.FS

// entry is one API of the directory that comes with Helix. Its texts and the descriptions in spec are ours.
type entry struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Tags        []string        `json:"tags"`
	Hosts       []string        `json:"hosts"`
	Auth        string          `json:"auth"` // none, apiKey, basic, bearer or oauth2
	License     string          `json:"license,omitempty"`
	URL         string          `json:"url,omitempty"`      // of its description
	Spec        json.RawMessage `json:"spec,omitempty"`     // its description
	File        string          `json:"file,omitempty"`     // of the directory, or of a catalog's folder, with its description
	Manifest    bool            `json:"manifest,omitempty"` // the file is a manifest
	Words       string          `json:"words,omitempty"`    // of its operations
}

// directory returns the entries that come with Helix.
var directory = sync.OnceValue(func() []entry {
	list, err := readDirectory()
	if err != nil {
		panic(fmt.Sprintf("discovery: directory: %v", err)) // a test reads it
	}
	return list
})

func readDirectory() ([]entry, error) {
	raw, err := directoryFiles.ReadFile("directory/entries.json")
	if err != nil {
		return nil, err
	}
	var d struct{ Entries []entry }
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, err
	}
	for i, e := range d.Entries {
		if e.File == "" {
			continue
		}
		if raw, err = directoryFiles.ReadFile("directory/" + e.File); err != nil {
			return nil, err
		}
		spec, err := openapi.Decode(raw)
		if err != nil {
			return nil, err
		}
		d.Entries[i].Spec = rawJSON(spec)
	}
	return d.Entries, nil
}

// entryNamed returns an API of the directory.
func entryNamed(name string) (entry, error) {
	i := slices.IndexFunc(directory(), func(e entry) bool { return e.Name == name })
	if i < 0 {
		return entry{}, fault.NotFoundf("The directory has no API named %.100q.", name)
	}
	return directory()[i], nil
}

// SearchParams ask for tools and APIs that can do something.
type SearchParams struct {
	Query   string   `json:"query"`             // words, at most 500 bytes
	Sources []string `json:"sources,omitempty"` // catalog, imported or directory; default: all
	Limit   int      `json:"limit,omitempty"`   // 1..50, default 10
}

// Candidate is a tool or an API that may do what was asked for. One of the directory is unverified: it
// comes from its provider, and its description is read only when it is chosen.
type Candidate struct {
	Ref         string   `json:"ref"`                // for discovery.accept
	Source      string   `json:"source"`             // catalog, imported or directory
	Manifest    bool     `json:"manifest,omitempty"` // it is a manifest, for discovery.import_manifest
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Hosts       []string `json:"hosts"`
	Auth        string   `json:"auth"`
	License     string   `json:"license,omitempty"`
	Location    string   `json:"location,omitempty"` // of its description; absent: it comes with Helix
	Score       float64  `json:"score"`
	Why         []string `json:"why"` // the words that match, +meaning if it is close in meaning, and -auth, -license and -https for what lowers the score
}

// SearchResult is a list of candidates, best first.
type SearchResult struct {
	Results []Candidate     `json:"results"`
	Skipped []SkippedSource `json:"skippedSources"`
}

// Search finds tools and APIs by words: in the directory that comes with Helix, in the user's catalogs and among the
// user's tools, and by meaning once all of them are embedded. It uses no network. The same words give the same list.
func (s *Service) Search(ctx context.Context, p SearchParams) (SearchResult, error) {
	out := SearchResult{Results: []Candidate{}, Skipped: []SkippedSource{}}
	offset := 0
	if err := storage.CheckPage(&p.Limit, &offset, 10, 50); err != nil {
		return out, err
	}
	words := wordsOf(p.Query)
	if len(words) == 0 || len(p.Query) > 500 {
		return out, fault.InvalidField("query", fault.CodeRange, "Describe what you are looking for in a few words, with at most 500 bytes.")
	}
	for _, x := range p.Sources {
		if x != sourceCatalog && x != sourceImported && x != sourceDirectory {
			return out, fault.InvalidField("sources", fault.CodeUnknownValue, "The sources are catalog, imported and directory.")
		}
	}
	from := func(source string) bool { return len(p.Sources) == 0 || slices.Contains(p.Sources, source) }
	var docs []*document
	if from(sourceCatalog) {
		for _, e := range directory() {
			docs = append(docs, e.document())
		}
	}
	if from(sourceImported) {
		for page := (ListParams{Limit: 100}); ; page.Offset += page.Limit {
			tools, err := s.List(ctx, page)
			if err != nil {
				return out, err
			}
			for _, t := range tools.Tools {
				docs = append(docs, t.document())
			}
			if len(tools.Tools) < page.Limit {
				break
			}
		}
	}
	if from(sourceDirectory) {
		more, skipped, err := s.catalogDocuments(ctx)
		if err != nil {
			return out, err
		}
		docs, out.Skipped = append(docs, more...), append(out.Skipped, skipped...)
	}
	out.Results = rank(docs, words, s.near(ctx, p.Query, docs), p.Limit)
	return out, nil
}

// document is what is searched.
type document struct {
	Candidate
	words []string
}

func (e *entry) document() *document {
	ops := ""
	if e.Spec != nil {
		ops = string(e.Spec)
	}
	return &document{
		Candidate{Ref: sourceCatalog + ":" + e.Name, Source: sourceCatalog, Name: e.Name, Title: e.Title, Description: e.Description, Hosts: e.Hosts, Auth: e.Auth, License: e.License, Location: e.URL},
		wordsOf(strings.Repeat(e.Title+" "+strings.Join(e.Tags, " ")+" ", 2) + e.Description + " " + summaries(ops) + " " + e.Words),
	}
}

func (t *Tool) document() *document {
	texts := []string{t.Name, t.Name, t.Description}
	for _, c := range t.manifest.Capabilities {
		texts = append(texts, c.Name, c.Description)
	}
	return &document{
		Candidate{Ref: sourceImported + ":" + t.ID.String(), Source: sourceImported, Name: t.Name, Title: t.Name, Description: clipText(t.Description, 300), Hosts: t.Hosts},
		wordsOf(strings.Join(texts, " ")),
	}
}

// summaries returns the summaries of the operations of one of our descriptions.
func summaries(spec string) string {
	if spec == "" {
		return ""
	}
	var d struct {
		Paths map[string]map[string]struct{ Summary string }
	}
	if json.Unmarshal([]byte(spec), &d) != nil {
		return ""
	}
	var out []string
	for _, methods := range d.Paths {
		for _, m := range methods {
			out = append(out, m.Summary)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// stopWords say nothing about what an API does.
var stopWords = strings.Fields("a an and api by for from get i in is it me my of on or tell that the this to want what with")

// wordsOf splits text into lower-case words, each without a plural s.
func wordsOf(text string) []string {
	out := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	out = slices.DeleteFunc(out, func(w string) bool { return slices.Contains(stopWords, w) })
	for i, w := range out {
		if len(w) > 3 && !strings.HasSuffix(w, "ss") {
			out[i] = strings.TrimSuffix(w, "s")
		}
	}
	return out
}

// The parameters of BM25 (Robertson and Zaragoza, 2009) and of reciprocal rank fusion (Cormack et al., 2009)
// with their usual values. A word that matches says more than a similar text. The penalties make of two equal
// candidates the one first that works at once, may be used, and can be reached.
const (
	saturation     = 1.2
	lengthNorm     = 0.75
	fusion         = 60
	meaningWeight  = 0.5
	authPenalty    = 0.9
	licensePenalty = 0.97
	httpPenalty    = 0.8
)

// penalties lower the score of a candidate by what it lacks.
var penalties = []struct {
	why   string
	by    float64
	lacks func(c *Candidate) bool
}{
	{"-auth", authPenalty, func(c *Candidate) bool { return c.Auth != "none" }},
	{"-license", licensePenalty, func(c *Candidate) bool { return c.License == "" }},
	{"-https", httpPenalty, func(c *Candidate) bool { return strings.HasPrefix(c.Location, "http:") }},
}

// penalty returns the product of the penalties of a candidate. Tools of the user have none: they were judged
// when they were approved.
func (c *Candidate) penalty() (factor float64, why []string) {
	factor = 1
	for _, p := range penalties {
		if c.Source != sourceImported && p.lacks(c) {
			factor, why = factor*p.by, append(why, p.why)
		}
	}
	return factor, why
}

// rank returns the documents that contain at least one of the words, by BM25, and those near, which are close
// in meaning, best first and equal ones by name. With near, both orders are joined by reciprocal rank fusion.
func rank(docs []*document, query []string, near []int, limit int) []Candidate {
	query = slices.Compact(slices.Sorted(slices.Values(query)))
	counts := make([]int, len(docs)*len(query)) // of each word of the query in each document
	of := func(i int) []int { return counts[i*len(query):][:len(query)] }
	containing, total := make([]int, len(query)), 0
	for i := range docs {
		total += len(docs[i].words)
		n := of(i)
		for _, w := range docs[i].words {
			if k, ok := slices.BinarySearch(query, w); ok {
				if n[k]++; n[k] == 1 {
					containing[k]++
				}
			}
		}
	}
	scores, found := make([]float64, len(docs)), []int{}
	for i := range docs {
		long := 1 - lengthNorm + lengthNorm*float64(len(docs[i].words))*float64(len(docs))/float64(total)
		for k, n := range of(i) {
			if n > 0 {
				rare := math.Log(1 + (float64(len(docs)-containing[k])+0.5)/(float64(containing[k])+0.5))
				scores[i] += rare * float64(n) * (saturation + 1) / (float64(n) + saturation*long)
			}
		}
		if scores[i] > 0 {
			found = append(found, i)
		}
	}
	better := func(a, b int) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), strings.Compare(docs[a].Name, docs[b].Name), strings.Compare(docs[a].Ref, docs[b].Ref))
	}
	if near != nil {
		slices.SortFunc(found, better)
		for at, i := range found {
			scores[i] = (fusion + 1) / float64(fusion+1+at)
		}
		for at, i := range near {
			if scores[i] == 0 {
				found = append(found, i)
			}
			scores[i] += meaningWeight * (fusion + 1) / float64(fusion+1+at)
		}
	}
	for _, i := range found {
		factor, _ := docs[i].penalty()
		scores[i] = math.Round(scores[i]*factor*1000) / 1000
	}
	slices.SortFunc(found, better)
	out := make([]Candidate, min(limit, len(found)))
	for at := range out {
		i := found[at]
		c := docs[i].Candidate
		c.Score, c.Why = scores[i], []string{}
		for k, n := range of(i) {
			if n > 0 {
				c.Why = append(c.Why, query[k])
			}
		}
		if slices.Contains(near, i) {
			c.Why = append(c.Why, "+meaning")
		}
		_, lacks := c.penalty()
		c.Why = append(c.Why, lacks...)
		out[at] = c
	}
	return out
}
