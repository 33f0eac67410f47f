package providers

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"helix/backend/fault"
)

// snapshot is the catalog of models.dev at build time.
//
//go:embed catalog.json.gz
var snapshot []byte

const maxCatalog = 64 << 20

// Catalog holds the known models. It is immutable.
type Catalog struct {
	Date      string // of its newest entry
	SHA256    string // of the text
	Providers map[string]CatalogProvider
}

// CatalogProvider is a service in the catalog.
type CatalogProvider struct {
	ID     string                  `json:"id"`
	Name   string                  `json:"name"`
	Env    []string                `json:"env,omitempty"`
	NPM    string                  `json:"npm,omitempty"`
	API    string                  `json:"api,omitempty"`
	Models map[string]CatalogModel `json:"models"`
}

// CatalogModel is one model of a service.
type CatalogModel struct {
	ID               string          `json:"id"`
	Name             string          `json:"name"`
	Family           string          `json:"family,omitempty"`
	Attachment       bool            `json:"attachment,omitempty"`
	Reasoning        bool            `json:"reasoning,omitempty"`
	ToolCall         bool            `json:"tool_call,omitempty"`
	StructuredOutput *bool           `json:"structured_output,omitempty"`
	Temperature      *bool           `json:"temperature,omitempty"`
	Interleaved      json.RawMessage `json:"interleaved,omitempty"`
	Knowledge        string          `json:"knowledge,omitempty"`
	ReleaseDate      string          `json:"release_date,omitempty"`
	LastUpdated      string          `json:"last_updated,omitempty"`
	Status           string          `json:"status,omitempty"`
	Modalities       struct {
		Input  []string `json:"input,omitempty"`
		Output []string `json:"output,omitempty"`
	} `json:"modalities"`
	Cost  *catalogCost `json:"cost,omitempty"`
	Limit struct {
		Context int `json:"context"`
		Input   int `json:"input,omitempty"`
		Output  int `json:"output"`
	} `json:"limit"`
}

// Caps are the capabilities of a model.
type Caps struct {
	Tools      bool `json:"tools"`
	Images     bool `json:"images"`
	Files      bool `json:"files"`
	Reasoning  bool `json:"reasoning"`
	Structured bool `json:"structured"`
}

// ModelInfo describes a model to callers and in the interface.
type ModelInfo struct {
	Ref    ModelRef `json:"ref"`
	Name   string   `json:"name"`
	Family string   `json:"family,omitempty"`
	Caps   Caps     `json:"caps"`
	Window int      `json:"window"`
	Output int      `json:"output"`
	Prices Price    `json:"prices"`
	Status string   `json:"status,omitempty"`
	// LoadedWindow is the window with which a server on this computer has loaded the model; 0: it does not say.
	LoadedWindow int  `json:"loadedWindow,omitempty"`
	silent       bool // a server on this computer that does not say its window
	// Source is catalog, server or assumed.
	Source string `json:"source"`
	// Host is the host that requests for the model are sent to.
	Host string `json:"host,omitempty"`
	// Local reports that the host is this computer.
	Local bool `json:"local,omitempty"`
	// NoTemperature reports that the model rejects a temperature.
	NoTemperature bool `json:"noTemperature,omitempty"`
	// Interleaved names the member in which a chat server expects earlier reasoning.
	Interleaved string `json:"interleaved,omitempty"`
}

// similar returns the end of a message about an unknown model, with the models of similar names.
func similar(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " Similar: " + strings.Join(names, ", ") + "."
}

// embeddedCatalog reads the snapshot once.
var embeddedCatalog = sync.OnceValues(func() (*Catalog, error) {
	z, err := gzip.NewReader(bytes.NewReader(snapshot))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(z, maxCatalog))
	if err != nil {
		return nil, err
	}
	return ParseCatalog(text)
})

// ParseCatalog parses and checks a catalog in the format of models.dev.
func ParseCatalog(text []byte) (*Catalog, error) {
	if len(text) > maxCatalog {
		return nil, fault.Limitf("The catalog is larger than %d bytes.", maxCatalog)
	}
	c := &Catalog{}
	if err := json.Unmarshal(text, &c.Providers); err != nil {
		return nil, fault.Invalidf("Couldn't read the catalog.").WithCause(err)
	}
	if len(c.Providers) == 0 {
		return nil, fault.Invalidf("The catalog is empty.")
	}
	for id, p := range c.Providers {
		if id == "" || p.ID != id {
			return nil, fault.Invalidf("The catalog names provider %q %q.", id, p.ID)
		}
		for name, m := range p.Models {
			switch {
			case name == "" || m.Limit.Context < 0 || m.Limit.Output < 0:
				return nil, fault.Invalidf("The catalog has an invalid entry %s/%s.", id, name)
			case m.Cost != nil && !m.Cost.valid():
				return nil, fault.Invalidf("The catalog has an invalid price for %s/%s.", id, name)
			}
			c.Date = max(c.Date, m.LastUpdated)
		}
	}
	sum := sha256.Sum256(text)
	c.SHA256 = hex.EncodeToString(sum[:])
	return c, nil
}

func (c catalogCost) valid() bool {
	for _, n := range []json.Number{c.Input, c.Output, c.CacheRead, c.CacheWrite, c.Reasoning} {
		if _, ok := decimalMicros(string(n), 6); n != "" && !ok {
			return false
		}
	}
	return c.ContextOver == nil || c.ContextOver.valid()
}

// Models returns the number of models in the catalog.
func (c *Catalog) Models() (n int) {
	for _, p := range c.Providers {
		n += len(p.Models)
	}
	return n
}

// Info describes a model of one of the catalog's providers.
func (c *Catalog) Info(provider, model string) (ModelInfo, bool) {
	m, ok := c.Providers[provider].Models[model]
	if !ok {
		return ModelInfo{}, false
	}
	i := ModelInfo{
		Ref: ModelRef(provider + "/" + model), Name: cmp.Or(m.Name, model), Family: cmp.Or(m.Family, familyOf(model)), Window: m.Limit.Context, Output: m.Limit.Output,
		Status: m.Status, Source: "catalog", NoTemperature: m.Temperature != nil && !*m.Temperature,
		Caps: Caps{
			Tools: m.ToolCall, Reasoning: m.Reasoning, Images: slices.Contains(m.Modalities.Input, "image"), Files: slices.Contains(m.Modalities.Input, "pdf"),
			Structured: m.StructuredOutput != nil && *m.StructuredOutput,
		},
	}
	if m.Cost != nil {
		i.Prices = m.Cost.price()
	}
	var field struct{ Field string }
	if json.Unmarshal(m.Interleaved, &field) == nil {
		i.Interleaved = field.Field
	}
	return i, true
}

// nearest returns the three ids most similar to model.
func (c *Catalog) nearest(provider, model string) []string {
	ids := slices.Collect(maps.Keys(c.Providers[provider].Models))
	distance := map[string]int{}
	for _, id := range ids {
		distance[id] = editDistance(strings.ToLower(id), strings.ToLower(model))
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(distance[a], distance[b]), strings.Compare(a, b))
	})
	return ids[:min(3, len(ids))]
}

// editDistance is the Levenshtein distance over the first 80 bytes.
func editDistance(a, b string) int {
	a, b = a[:min(len(a), 80)], b[:min(len(b), 80)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			left, row[j+1] = row[j+1], min(left+cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
