package openapi

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"helix/backend/fault"
)

// The kinds of schemes that can be used.
const (
	APIKey = "apiKey"
	Basic  = "basic"
	Bearer = "bearer"
	OAuth2 = "oauth2"
)

// Scheme is one way to authenticate that a description offers.
type Scheme struct {
	Name        string `json:"name"`
	Kind        string `json:"kind"`            // apiKey, basic, bearer or oauth2; "": it cannot be used
	In          string `json:"in,omitempty"`    // of an API key: header, query or cookie
	Param       string `json:"param,omitempty"` // of an API key: its name there
	Description string `json:"description,omitempty"`
	Why         string `json:"why,omitempty"` // why it cannot be used
	Flows       []Flow `json:"flows,omitempty"`
}

// Flow is one flow of OAuth 2.
type Flow struct {
	Kind         string   `json:"kind"` // authorizationCode or clientCredentials
	AuthorizeURL string   `json:"authorizationUrl,omitempty"`
	TokenURL     string   `json:"tokenUrl,omitempty"`
	Scopes       []string `json:"scopes"`
}

// Credential is what a user has stored for a scheme. Its String does not show it.
type Credential struct {
	User  string // of basic
	Value string // the key, token or password
}

// String implements fmt.Stringer.
func (Credential) String() string { return "•••" }

// GoString implements fmt.GoStringer.
func (Credential) GoString() string { return "•••" }

func (d *Document) readSchemes() {
	all := object(object(d.root["components"])["securitySchemes"])
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m, err := d.follow(all[name])
		if err != nil {
			d.warn("/components/securitySchemes/"+escapePointer.Replace(name), "%s", err)
			continue
		}
		d.Schemes = append(d.Schemes, scheme(name, m))
	}
}

func scheme(name string, m map[string]any) Scheme {
	s := Scheme{Name: name, Description: clip(text(m["description"]), 500)}
	switch kind := text(m["type"]); kind {
	case "apiKey":
		s.Kind, s.In, s.Param = APIKey, text(m["in"]), text(m["name"])
		if !slices.Contains([]string{"header", "query", "cookie"}, s.In) || s.Param == "" || s.In != "query" && !headerName(s.Param) {
			s.Kind, s.Why = "", "it doesn't say where the key goes"
		}
	case "http":
		switch strings.ToLower(text(m["scheme"])) {
		case "basic":
			s.Kind = Basic
		case "bearer":
			s.Kind = Bearer
		default:
			s.Why = "the HTTP scheme isn't supported"
		}
	case "oauth2":
		s.Kind = OAuth2
		flows := object(m["flows"])
		for _, k := range []string{"authorizationCode", "clientCredentials"} {
			if f := object(flows[k]); f != nil {
				s.Flows = append(s.Flows, Flow{k, text(f["authorizationUrl"]), text(f["tokenUrl"]), slices.Sorted(maps.Keys(object(f["scopes"])))})
			}
		}
	default:
		s.Why = "this kind of authentication isn't supported"
	}
	return s
}

// Scheme returns the scheme with a name.
func (d *Document) Scheme(name string) (Scheme, bool) {
	i := slices.IndexFunc(d.Schemes, func(s Scheme) bool { return s.Name == name })
	if i < 0 {
		return Scheme{}, false
	}
	return d.Schemes[i], true
}

// security returns the alternatives of an operation that can be used. why is not empty if it needs
// authentication and none can.
func (d *Document) security(raw map[string]any) (out [][]string, why string) {
	v := raw["security"]
	if v == nil {
		v = d.root["security"]
	}
	list, _ := v.([]any)
	for _, x := range list {
		names, usable := slices.Sorted(maps.Keys(object(x))), true
		for _, n := range names {
			s, ok := d.Scheme(n)
			if usable = usable && ok && s.Kind != ""; !usable {
				why = "its authentication " + n + " isn't supported"
			}
		}
		if usable {
			out = append(out, names)
		}
	}
	if len(out) > 0 {
		why = ""
	}
	return out, why
}

// Authenticate adds credentials to a request: those of the first alternative of the operation for
// which ready returns all of them. The error is Unavailable, and names what is missing, if there is no
// such alternative.
func (d *Document) Authenticate(r *Request, o Operation, ready func(s Scheme) (Credential, bool, error)) error {
	if len(o.Security) == 0 {
		return nil
	}
	optional := false
	missing := []string{}
	for _, names := range o.Security {
		if len(names) == 0 { // used only if no alternative is ready
			optional = true
			continue
		}
		have := make([]Credential, 0, len(names))
		for _, n := range names {
			s, _ := d.Scheme(n)
			c, ok, err := ready(s)
			if err != nil {
				return err
			}
			if !ok {
				missing = append(missing, n)
				break
			}
			have = append(have, c)
		}
		if len(have) < len(names) {
			continue
		}
		for i, n := range names {
			s, _ := d.Scheme(n)
			if err := r.authenticate(s, have[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if optional {
		return nil
	}
	return fault.Unavailablef("This operation needs authentication. Set up %s first.", strings.Join(missing, " or "))
}

func (r *Request) authenticate(s Scheme, c Credential) error {
	if strings.ContainsFunc(c.Value+c.User, isControl) {
		return fault.Invalidf("The credential for %s contains characters that aren't allowed.", s.Name)
	}
	switch s.Kind {
	case Basic:
		r.secretHeader("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(c.User+":"+c.Value)))
	case Bearer, OAuth2:
		r.secretHeader("Authorization", "Bearer "+c.Value)
	case APIKey:
		switch s.In {
		case "header":
			r.secretHeader(s.Param, c.Value)
		case "cookie":
			r.secretCookies = append(r.secretCookies, s.Param+"="+escape(c.Value, false))
		default:
			r.secretQuery = append(r.secretQuery, escape(s.Param, false)+"="+escape(c.Value, false))
		}
	}
	return nil
}
