package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"

	"helix/backend/fault"
)

// Operation is one operation of a description. Its texts come from outside.
type Operation struct {
	Key         string     `json:"key"`    // method and path, such as "get /users/{id}"
	ID          string     `json:"id"`     // operationId; may be empty
	Method      string     `json:"method"` // in upper case
	Path        string     `json:"path"`   // template
	Summary     string     `json:"summary,omitempty"`
	Description string     `json:"description,omitempty"`
	Tags        []string   `json:"tags,omitempty"`
	Deprecated  bool       `json:"deprecated,omitempty"`
	Effects     Effects    `json:"effects"`
	Paginated   bool       `json:"paginated,omitempty"`
	Security    [][]string `json:"security,omitempty"` // alternatives, each the names of schemes that are needed together
}

// Effects are what a call may do at the other end.
type Effects struct {
	ReadOnly    bool `json:"readOnly"`
	Idempotent  bool `json:"idempotent"`
	Destructive bool `json:"destructive"`
	Privileged  bool `json:"privileged,omitempty"` // the description asks for the highest tier
}

// Tier returns readOnly, sideEffecting or privileged.
func (e Effects) Tier() string {
	switch {
	case e.Privileged:
		return "privileged"
	case e.ReadOnly:
		return "readOnly"
	}
	return "sideEffecting"
}

var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

func (d *Document) readOperations() error {
	paths := object(d.root["paths"])
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		where := "/paths/" + escapePointer.Replace(path)
		item, err := d.follow(paths[path])
		if err != nil {
			d.skip(where, "%s", err)
			continue
		}
		for _, m := range methods {
			raw, ok := item[m].(map[string]any)
			if !ok {
				continue
			}
			if len(d.Operations)+len(d.Skipped) >= maxOperations {
				return fault.Limitf("The API description has more than %d operations.", maxOperations)
			}
			o, why := d.operation(path, m, item, raw)
			if why != "" {
				d.skip(where+"/"+m, "%s", why)
				continue
			}
			d.Operations = append(d.Operations, o)
		}
	}
	slices.SortFunc(d.Operations, sortedByPath)
	for i, o := range d.Operations {
		d.byKey[o.Key] = i
	}
	return nil
}

func (d *Document) skip(pointer, format string, args ...any) {
	w := d.Warnings
	d.Warnings = nil
	d.warn(pointer, format, args...)
	d.Skipped = append(d.Skipped, d.Warnings...)
	d.Warnings = w
}

// operation reads one operation. why is not empty if it cannot be used.
func (d *Document) operation(path, method string, item, raw map[string]any) (o Operation, why string) {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#\\") || hasDotSegment(path) || strings.ContainsFunc(path, isControl) {
		return o, "its path can't be part of an address"
	}
	if method == "trace" {
		return o, "the method TRACE isn't supported"
	}
	o = Operation{
		Key: method + " " + path, Method: strings.ToUpper(method), Path: path, ID: clip(text(raw["operationId"]), 300),
		Summary: clip(text(raw["summary"]), 300), Description: clip(text(raw["description"]), maxText), Tags: texts(raw["tags"]), Deprecated: truth(raw["deprecated"]),
	}
	o.Effects = effects(method, path, o.Summary, text(raw["x-helix-tier"]))
	params, err := d.parameters(path, item, raw)
	if err != nil {
		return o, err.Error()
	}
	for _, p := range params {
		if p.in == "query" && slices.Contains(pageParams, strings.ToLower(p.name)) {
			o.Paginated = true
		}
	}
	if raw["requestBody"] != nil {
		if _, err := d.follow(raw["requestBody"]); err != nil {
			return o, err.Error()
		}
	}
	o.Security, why = d.security(raw)
	return o, why
}

// pageParams are the usual names of parameters that choose a page.
var pageParams = []string{"page", "cursor", "offset", "after", "page_token", "pagetoken", "next_token", "nexttoken", "starting_after", "continuation"}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }

func hasDotSegment(path string) bool {
	for s := range strings.SplitSeq(path, "/") {
		if isDots(s) {
			return true
		}
	}
	return false
}

// isDots reports whether clients or servers may treat a segment as . or .. .
func isDots(segment string) bool {
	if len(segment) > len("%2e%2e") {
		return false
	}
	s := strings.ReplaceAll(strings.ToLower(segment), "%2e", ".")
	return s == "." || s == ".."
}

var harmful = regexp.MustCompile(`(?i)(^|[^a-z])(delete|deletes|destroy|purge|transfer|transfers|pay|payment|payments|send|sends)([^a-z]|$)`)

// effects derives what a call may do from the method. Texts and hints can only raise it.
func effects(method, path, summary, hint string) Effects {
	e := Effects{}
	switch method {
	case "get", "head", "options":
		e.ReadOnly, e.Idempotent = true, true
	case "put":
		e.Idempotent = true
	case "delete":
		e.Idempotent, e.Destructive = true, true
	}
	if !e.ReadOnly && harmful.MatchString(path+" "+summary) {
		e.Destructive = true
	}
	switch hint {
	case "privileged":
		e.Privileged, e.ReadOnly = true, false
	case "sideEffecting":
		e.ReadOnly = false
	}
	return e
}

// MaxName is the maximum length of a function name toward models.
const MaxName = 64

var notName = regexp.MustCompile(`[^a-zA-Z0-9]+`)

// Names returns the function name of each operation: the slug of its id, or of its method and path,
// behind prefix. A name that is too long or that several operations share ends with a hash of the
// method and path, so that it depends on nothing but the operation and is the same at each import.
func Names(prefix string, list []Operation) []string {
	out := make([]string, len(list))
	count := map[string]int{}
	for i, o := range list {
		slug := o.ID
		if slug == "" {
			slug = o.Key
		}
		slug = strings.Trim(notName.ReplaceAllString(slug, "_"), "_")
		if slug == "" {
			slug = strings.ToLower(o.Method)
		}
		out[i] = slug
		if prefix != "" {
			out[i] = notName.ReplaceAllString(prefix, "_") + "_" + slug
		}
		count[out[i]]++
	}
	for i, o := range list {
		if len(out[i]) <= MaxName && count[out[i]] == 1 {
			continue
		}
		sum := sha256.Sum256([]byte(o.Method + " " + o.Path))
		out[i] = out[i][:min(len(out[i]), MaxName-9)] + "_" + hex.EncodeToString(sum[:4])
	}
	return out
}
