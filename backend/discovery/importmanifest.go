package discovery

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/openapi"
)

// maxManifest is the largest manifest, in bytes.
const maxManifest = 256 << 10

// ImportManifestParams name a manifest.
type ImportManifestParams struct {
	Path    string `json:"path,omitempty"`    // a file that the user chose
	Content string `json:"content,omitempty"` // the text itself
	URL     string `json:"url,omitempty"`
	DryRun  *bool  `json:"dryRun,omitempty"` // default true: only return what would be imported
	// OnConflict is what happens if a tool has the name: upgrade, rename or skip. Absent: a Conflict.
	OnConflict string `json:"onConflict,omitempty"`

	as   string // name of the tool, instead of the one in the manifest
	from string // where Content was read from
}

// outline is a manifest as read, in any of the accepted shapes.
type outline struct {
	shape                string
	name, version, text  string
	author, home, rights string
	operations           []string
	kind                 string
	openapi              any // address, or the description itself
	server               string
	hosts                []string
	anyHost              bool // it asks for the network and names no hosts
	timeout              int
	samples              []Sample
	warnings             []string
}

// ImportManifest imports a tool from a manifest in YAML or JSON that names an API description. It
// accepts three shapes and stores one. Only the execution type http can be imported.
func (s *Service) ImportManifest(ctx context.Context, p ImportManifestParams) (ImportResult, error) {
	raw, location, err := s.read(ctx, Source{p.Path, p.Content, p.URL})
	if err != nil {
		return ImportResult{}, err
	}
	if len(raw) > maxManifest {
		return ImportResult{}, fault.Limitf("The manifest is larger than %d KiB.", maxManifest>>10)
	}
	doc, err := openapi.Decode(raw)
	if err != nil {
		return ImportResult{}, err
	}
	o, err := readOutline(doc)
	if err != nil {
		return ImportResult{}, err
	}
	o.name, location = cmp.Or(p.as, o.name), cmp.Or(p.from, location)
	if o.kind != "http" {
		return ImportResult{}, fault.Unavailablef("This version of Helix can't run tools of the type %.40s. Only http can be imported.", o.kind)
	}
	d, err := s.outlined(ctx, o)
	if err != nil {
		return ImportResult{}, err
	}
	return s.importOutline(ctx, o, d, location, p)
}

// outlined reads the description that a manifest names or contains.
func (s *Service) outlined(ctx context.Context, o *outline) (*openapi.Document, error) {
	switch x := o.openapi.(type) {
	case map[string]any:
		return openapi.Parse(rawJSON(x), "")
	case string:
		if strings.Contains(x, "://") || strings.HasPrefix(x, sourceCatalog+":") {
			raw, location, err := s.read(ctx, Source{URL: x})
			if err != nil {
				return nil, err
			}
			return openapi.Parse(raw, location)
		}
	}
	return nil, fault.InvalidField("execution/openapi", fault.CodeInvalid, "The manifest must name the address of an API description, or contain it.")
}

func (s *Service) importOutline(ctx context.Context, o *outline, d *openapi.Document, location string, p ImportManifestParams) (ImportResult, error) {
	chosen, err := o.choose(d)
	if err != nil {
		return ImportResult{}, err
	}
	server, err := chooseServer(d, ImportOpenAPIParams{Server: o.server})
	if err != nil {
		return ImportResult{}, err
	}
	t := &Tool{Name: o.name, Version: o.version, Description: clipText(o.text, 2000), SourceType: "local", SourceLocation: location, Type: "http", user: identity.UserID(ctx)}
	if !toolName.MatchString(t.Name) { // before it is part of other names
		return ImportResult{}, (&Manifest{Name: t.Name}).check()
	}
	warnings, err := s.define(ctx, t, d, chosen, server)
	if err != nil {
		return ImportResult{}, err
	}
	m := &t.manifest
	m.Author, m.Homepage, m.License, m.Execution.TimeoutSeconds = o.author, o.home, o.rights, o.timeout
	m.Samples = o.samples
	for _, h := range m.Permissions.Network.Hosts {
		if !o.anyHost && !slices.Contains(o.hosts, h) {
			return ImportResult{}, fault.InvalidField("permissions/network/hosts", fault.CodeInvalid, "The operations are sent to %s, which isn't one of the hosts of the manifest.", h)
		}
	}
	if o.anyHost {
		o.warnings = append(o.warnings, "The manifest asks for the network without hosts. The tool may reach only: "+strings.Join(m.Permissions.Network.Hosts, ", ")+".")
	}
	if err := m.check(); err != nil {
		return ImportResult{}, err
	}
	if t.hash, err = m.hash(); err != nil {
		return ImportResult{}, err
	}
	out := ImportResult{Manifest: *m, DefinitionHash: fmt.Sprintf("%x", t.hash), SourceShape: o.shape, Warnings: append(warnings, o.warnings...)}
	return s.commit(ctx, t, out, conflict{p.DryRun == nil || *p.DryRun, p.OnConflict, func(name string) (ImportResult, error) {
		o.name, p.OnConflict = name, ""
		return s.importOutline(ctx, o, d, location, p)
	}})
}

// choose returns the operations that a manifest names: by operationId, by method and path, or by the name
// that they get. Without names it is all of them.
func (o *outline) choose(d *openapi.Document) ([]openapi.Operation, error) {
	if len(o.operations) == 0 {
		return d.Operations, nil
	}
	names := openapi.Names("", d.Operations)
	out := []openapi.Operation{}
	for _, want := range o.operations {
		i := slices.IndexFunc(d.Operations, func(x openapi.Operation) bool { return x.Key == want || x.ID == want })
		if i < 0 {
			i = slices.Index(names, want)
		}
		if i < 0 {
			return nil, fault.InvalidField("capabilities", fault.CodeInvalid, "The API description has no operation %.100q.", want)
		}
		out = append(out, d.Operations[i])
	}
	return out, nil
}

// The keys of the shapes, at the top level and under permissions.
var (
	topKeys = map[string][]string{
		"canonical": {"manifestVersion", "name", "version", "description", "author", "homepage", "license", "capabilities", "inputs", "outputs", "execution", "permissions", "samples"},
		"guide":     {"name", "version", "description", "author", "homepage", "license", "capabilities", "parameters_schema", "openapi_spec", "execution", "execution_type", "permissions"},
		"schema":    {"name", "version", "description", "author", "homepage", "license", "capabilities", "inputs", "outputs", "execution", "permissions"},
	}
	permissionKeys = map[string][]string{
		"canonical": {"network", "storageMb", "memoryMb", "cpuPercent", "pids", "secrets"},
		"guide":     {"internet_access", "allowed_hosts", "storage_quota_mb", "cpu_limit_percent", "memory_limit_mb"},
		"schema":    {"network", "storage", "resources"},
	}
)

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// readOutline recognizes the shape of a manifest and reads it. Unknown keys at the top level and under
// permissions are errors, because they could be a permission that was meant to limit something.
func readOutline(doc map[string]any) (*outline, error) {
	o := &outline{shape: shapeOf(doc), timeout: 30, warnings: []string{}}
	perms := object(doc["permissions"])
	for where, of := range map[string]struct {
		have map[string]any
		know []string
	}{"": {doc, topKeys[o.shape]}, "permissions/": {perms, permissionKeys[o.shape]}} {
		for _, k := range slices.Sorted(maps.Keys(of.have)) {
			if !slices.Contains(of.know, k) {
				return nil, fault.InvalidField(where+k, fault.CodeInvalid, "The manifest has an unknown key %.100q.", where+k)
			}
		}
	}
	str := func(v any) string { s, _ := v.(string); return s }
	o.name, o.version, o.text = str(doc["name"]), cmp.Or(str(doc["version"]), "1.0.0"), str(doc["description"])
	o.author, o.home, o.rights = clipText(str(doc["author"]), 200), clipText(str(doc["homepage"]), 300), clipText(str(doc["license"]), 100)
	run := object(doc["execution"])
	o.kind, o.openapi, o.server = cmp.Or(str(run["type"]), str(doc["execution_type"]), "docker"), run["openapi"], str(run["server"])
	if o.openapi == nil {
		o.openapi = doc["openapi_spec"]
	}
	if v, ok := run["timeoutSeconds"]; ok {
		o.timeout = 0
		if _, err := fmt.Sscan(fmt.Sprint(v), &o.timeout); err != nil {
			return nil, fault.InvalidField("execution/timeoutSeconds", fault.CodeType, "The time limit must be a number of seconds.")
		}
	}
	var err error
	if o.samples, err = readSamples(doc["samples"]); err != nil {
		return nil, err
	}
	network := object(perms["network"])
	var hosts any
	switch o.shape {
	case "guide":
		hosts = perms["allowed_hosts"]
		o.anyHost = perms["internet_access"] == true && hosts == nil
	case "schema":
		hosts = network["allowedHosts"]
		o.anyHost = network["outbound"] == true && hosts == nil
	default:
		hosts = network["hosts"]
	}
	list, _ := hosts.([]any)
	for _, h := range list {
		o.hosts = append(o.hosts, strings.ToLower(str(h)))
	}
	switch list := doc["capabilities"].(type) {
	case []any:
		for _, c := range list {
			o.operations = append(o.operations, cmp.Or(str(c), str(object(c)["operation"]), str(object(c)["name"])))
		}
	case map[string]any:
		o.operations = slices.Sorted(maps.Keys(list))
	}
	return o, nil
}

func shapeOf(doc map[string]any) string {
	perms := object(doc["permissions"])
	for _, k := range permissionKeys["guide"] {
		if _, ok := perms[k]; ok {
			return "guide"
		}
	}
	_, canonical := doc["manifestVersion"]
	_, caps := doc["capabilities"].(map[string]any)
	switch {
	case canonical:
		return "canonical"
	case caps || doc["openapi_spec"] != nil || doc["parameters_schema"] != nil:
		return "guide"
	}
	return "schema"
}
