package discovery

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/callable/netgate"
	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/openapi"
	"helix/backend/permission"
)

// Manifest is the definition of a tool in canonical form: what is stored, hashed and shown.
type Manifest struct {
	ManifestVersion int           `json:"manifestVersion"`
	Name            string        `json:"name"`
	Version         string        `json:"version"`
	Description     string        `json:"description"`
	Author          string        `json:"author,omitempty"`
	Homepage        string        `json:"homepage,omitempty"`
	License         string        `json:"license,omitempty"`
	Capabilities    []Capability  `json:"capabilities"`
	Execution       ExecutionSpec `json:"execution"`
	Permissions     Permissions   `json:"permissions"`
	Samples         []Sample      `json:"samples,omitempty"`
}

// Capability is one operation of a tool. Its parameters are in the kept part of the description.
type Capability struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Operation   string `json:"operation"` // method and path
	Tier        string `json:"tier"`      // readOnly, sideEffecting or privileged
	Idempotent  bool   `json:"idempotent"`
	Destructive bool   `json:"destructive"`
}

// ExecutionSpec is how a tool runs.
type ExecutionSpec struct {
	Type           string `json:"type"`    // http
	OpenAPI        string `json:"openapi"` // SHA-256 of the kept part of the description
	Server         string `json:"server"`
	Protocol       string `json:"protocol,omitempty"` // what carries out the operations: caldav, ics, jmap or smtp; absent: HTTP requests as described
	TimeoutSeconds int    `json:"timeoutSeconds"`
}

// Permissions are what a tool asks for.
type Permissions struct {
	Network Network `json:"network"`
}

// Network lists the hosts that a tool may reach: a host with an optional port, or localhost with a port.
type Network struct {
	Hosts []string `json:"hosts"`
}

var (
	toolName    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	toolVersion = regexp.MustCompile(`^\d{1,6}\.\d{1,6}\.\d{1,6}([-+][0-9A-Za-z.+-]{1,40})?$`)
	notSlug     = regexp.MustCompile(`[^a-z0-9]+`)
)

// slug returns a tool name made from a title.
func slug(title string) string {
	s := strings.Trim(notSlug.ReplaceAllString(strings.ToLower(title), "-"), "-")
	s = strings.TrimRight(s[:min(len(s), 40)], "-")
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		s = strings.TrimRight("api-"+s, "-")
	}
	return s
}

// check validates a manifest.
func (m *Manifest) check() error {
	switch {
	case !toolName.MatchString(m.Name):
		return fault.InvalidField("name", fault.CodeSyntax, "A tool's name starts with a letter and has at most 63 lower-case letters, digits and hyphens.")
	case !toolVersion.MatchString(m.Version):
		return fault.InvalidField("version", fault.CodeSyntax, "A version has the form 1.2.3.")
	case len(m.Description) > 2000:
		return fault.InvalidField("description", fault.CodeRange, "A description has at most 2,000 bytes.")
	case m.Execution.TimeoutSeconds < 1 || m.Execution.TimeoutSeconds > 600:
		return fault.InvalidField("execution/timeoutSeconds", fault.CodeRange, "The time limit must be 1 to 600 seconds.")
	case len(m.Capabilities) == 0 || len(m.Capabilities) > maxOperations:
		return fault.InvalidField("operations", fault.CodeRange, "Choose 1 to %d operations.", maxOperations)
	}
	if err := m.checkSamples(); err != nil {
		return err
	}
	_, err := m.wants()
	return err
}

// wants returns the permissions that the tool asks for.
func (m *Manifest) wants() ([]permission.Want, error) {
	out := []permission.Want{}
	if m.Execution.Protocol == openapi.SMTP {
		w, err := wantOf(m.Execution.Server)
		return []permission.Want{w}, err
	}
	for _, h := range m.Permissions.Network.Hosts {
		address := "https://" + h + "/"
		if name, _, _ := strings.Cut(h, ":"); name == "localhost" {
			address = "http://" + h + "/"
		}
		w, err := wantOf(address)
		if err != nil {
			return nil, fault.InvalidField("permissions/network/hosts", fault.CodeSyntax, "%.200q isn't a host that a tool can reach: %s", h, fault.As(err).Message)
		}
		out = append(out, w)
	}
	if len(out) == 0 || len(out) > 32 {
		return nil, fault.InvalidField("permissions/network/hosts", fault.CodeRange, "List 1 to 32 hosts that the tool may reach.")
	}
	return out, nil
}

// wantOf returns the permission that a request to an address needs.
func wantOf(address string) (permission.Want, error) {
	u, err := parseURL(address)
	if err != nil {
		return permission.Want{}, err
	}
	var c permission.Capability
	var resource string
	if u.Scheme == "smtp" || u.Scheme == "smtps" {
		c, resource = permission.NetworkSMTP, u.Host+u.Path
	} else if c, resource, err = netgate.Reaches(u); err != nil {
		return permission.Want{}, err
	}
	resource, err = permission.Normalize(c, resource)
	return permission.Want{Capability: c, Resource: resource}, err
}

// hostOf returns the entry of an address in Network.Hosts.
func hostOf(address string) (string, error) {
	w, err := wantOf(address)
	if err != nil {
		return "", err
	}
	if w.Capability == permission.NetworkLocalhost {
		return "localhost:" + w.Resource, nil
	}
	host, _, _ := strings.Cut(w.Resource, "/") // behind it is a sender
	return host, nil
}

// hash is the definition hash: of everything that is approved.
func (m *Manifest) hash() ([32]byte, error) { return jcs.Hash("helix-def-v1", m) }

// document is what permission stores and compares for a person.
func (m *Manifest) document() (json.RawMessage, error) {
	wants, err := m.wants()
	if err != nil {
		return nil, err
	}
	caps := []string{}
	for _, w := range wants {
		caps = append(caps, w.Text())
	}
	ops := []string{}
	for _, c := range m.Capabilities {
		ops = append(ops, c.Name+": "+c.Operation+" ("+c.Tier+")")
	}
	return jcs.Marshal(map[string]any{"name": m.Name, "version": m.Version, "description": m.Description, "capabilities": caps, "operations": ops, "server": m.Execution.Server, "openapi": m.Execution.OpenAPI, "samples": len(m.Samples)})
}

// capability returns the operation with a name.
func (m *Manifest) capability(name string) (Capability, bool) {
	i := slices.IndexFunc(m.Capabilities, func(c Capability) bool { return c.Name == name })
	if i < 0 {
		return Capability{}, false
	}
	return m.Capabilities[i], true
}

// tier is the highest tier of the operations.
func (m *Manifest) tier() permission.Tier {
	out := permission.ReadOnly
	for _, c := range m.Capabilities {
		out = out.Raise(tierOf(c.Tier))
	}
	return out
}

func tierOf(name string) permission.Tier {
	switch name {
	case "readOnly":
		return permission.ReadOnly
	case "privileged":
		return permission.Privileged
	}
	return permission.SideEffecting
}

// capabilities describes operations of a description. The names carry no more than 64 characters
// together with the name of the tool.
func capabilities(tool string, ops []openapi.Operation) []Capability {
	names := openapi.Names(tool, ops)
	out := make([]Capability, len(ops))
	for i, o := range ops {
		text := o.Summary
		if text == "" {
			text = o.Description
		}
		out[i] = Capability{
			Name: names[i][len(tool)+1:], Description: clipText(text, 300), Operation: o.Key, Tier: o.Effects.Tier(),
			Idempotent: o.Effects.Idempotent, Destructive: o.Effects.Destructive,
		}
	}
	slices.SortFunc(out, func(a, b Capability) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func clipText(s string, n int) string {
	s = permission.Sanitize(s)
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

func subject(id uuid.UUID, hash [32]byte) permission.Subject {
	return permission.Subject{Kind: string(Kind), ID: id.String(), DefinitionHash: hash}
}
