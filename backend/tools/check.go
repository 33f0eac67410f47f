package tools

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/schema"
)

// Limits of a tool.
const (
	maxCode     = 256 << 10
	maxTags     = 16
	maxTag      = 64
	maxIcon     = 64
	maxAuthor   = 100
	maxSamples  = 50
	maxTools    = 1000
	maxVersions = 200
)

func itoa(n int) string { return strconv.Itoa(n) }

// checkIcon accepts a short name or an emoji, but no path or markup.
func checkIcon(s string) error {
	if err := lifecycle.CheckText("icon", s, maxIcon); err != nil {
		return err
	}
	if strings.ContainsAny(s, `/\<>&"'`) || strings.Contains(s, "..") {
		return fault.Invalidf("The icon is a short name or one sign, not a path or markup.")
	}
	return nil
}

// cleanTags trims tags, drops empty and duplicate ones and checks the limits. It returns a new slice.
func cleanTags(tags []string) ([]string, error) {
	out := []string{}
	for _, t := range tags {
		t = strings.TrimSpace(t)
		if t == "" || slices.Contains(out, t) {
			continue
		}
		if err := lifecycle.CheckText("tag", t, maxTag); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	if len(out) > maxTags {
		return nil, fault.Invalidf("A tool has at most %d tags.", maxTags)
	}
	return out, nil
}

func checkSamples(list []Sample) ([]Sample, error) {
	if len(list) > maxSamples {
		return nil, fault.Invalidf("A tool has at most %d samples.", maxSamples)
	}
	size := 0
	out := []Sample{}
	for i, s := range list {
		if err := lifecycle.CheckText("name of a sample", s.Name, 100); err != nil {
			return nil, err
		}
		if len(s.Params) == 0 {
			s.Params = []byte("{}")
		}
		if _, err := jcs.Decode(s.Params, maxParamDepth, 0); err != nil {
			return nil, fault.Invalidf("Sample %d: %s.", i+1, err)
		}
		size += len(s.Params) + len(s.Expected)
		out = append(out, s)
	}
	if size > 256<<10 {
		return nil, fault.Invalidf("The samples of a tool hold at most 256 KiB.")
	}
	return out, nil
}

// profileAllows reports whether a profile permits a capability to be requested at all.
func profileAllows(p Profile, c permission.Capability) bool {
	switch c {
	case permission.State, permission.ToolCall:
		return true
	case permission.FilesystemRead, permission.NetworkHTTPS, permission.NetworkLocalhost, permission.Secret, permission.MCP:
		return p == Standard || p == Permissive
	case permission.FilesystemWrite:
		return p == Permissive
	}
	return false
}

// examined is a definition with the results of all static checks.
type examined struct {
	def    definition
	hash   [32]byte
	result Validation
}

// checker runs the static checks. The zero value has no engine: it compiles only short
// code, in this process.
type checker struct {
	box *sandbox.Engine
	// large is a semaphore of size one for analyzing long code, whose syntax tree takes about a
	// hundred times its size in memory. nil: no limit.
	large chan struct{}
}

// longCode is the size in bytes above which code is analyzed one at a time.
const longCode = 32 << 10

// examine normalizes a definition and runs every static check. It does not modify its argument.
func (k checker) examine(ctx context.Context, d definition) examined {
	v := Validation{Errors: []Problem{}, Warnings: []Problem{}, DetectedDangerousFunctions: []string{}}
	noSchema := len(d.Parameters) == 0 || string(d.Parameters) == "null"
	if err := lifecycle.CheckEnum("language", d.Language); err != nil {
		v.Errors = append(v.Errors, problemf("language", "language", "%s", fault.As(err).Message))
		d.Language = ""
	}
	if err := lifecycle.CheckEnum("profile", d.SandboxProfile); err != nil {
		v.Errors = append(v.Errors, problemf("profile", "sandboxProfile", "%s", fault.As(err).Message))
		d.SandboxProfile = ""
	}
	if err := lifecycle.CheckText("description", d.Description, lifecycle.MaxDescription); err != nil {
		v.Errors = append(v.Errors, problemf("description", "description", "%s", fault.As(err).Message))
	}
	caps, list := checkCapabilities(d, &v)
	d.Capabilities = caps
	d = d.normalize()
	checkLimits(d, &v)

	a := &analysis{helixAny: true, params: &paramUse{}}
	switch {
	case len(d.Code) > maxCode:
		v.Errors = append(v.Errors, problemf("size", "code", "The code has %d bytes; at most %d are allowed.", len(d.Code), maxCode))
	case !utf8.ValidString(d.Code):
		v.Errors = append(v.Errors, problemf("encoding", "code", "The code is not valid UTF-8."))
	default:
		a = k.analyse(ctx, d.Code, d.Language)
	}
	v.Errors = append(v.Errors, a.errors...)
	v.Warnings = append(v.Warnings, a.warnings...)
	v.DetectedDangerousFunctions = append(v.DetectedDangerousFunctions, a.dangerous...)
	v.Entry = a.entry
	if len(a.errors) == 0 {
		compareUse(a, list, &v)
	}
	ex := examined{def: d}
	_, bad := schema.Compile(d.Parameters)
	if bad != nil {
		p := problemf("schema", "parameters", "%s", fault.As(bad).Message)
		if at, ok := fault.As(bad).Details.(schema.Problem); ok {
			p.Path = at.Path
		}
		v.Errors = append(v.Errors, p)
	}
	if noSchema {
		v.SuggestedSchema = a.params.schema()
	}
	if h, err := d.sum(); err == nil {
		ex.hash, v.DefinitionHash = h, hashText(h)
	} else if bad == nil {
		v.Errors = append(v.Errors, problemf("schema", "parameters", "%s", fault.As(err).Message))
	}
	v.Valid = len(v.Errors) == 0
	ex.result = v
	return ex
}

func checkCapabilities(d definition, v *Validation) ([]string, []permission.Want) {
	profile := d.SandboxProfile
	if profile == "" {
		profile = Standard
	}
	var texts []string
	var list []permission.Want
	problem := func(i int, code, format string, args ...any) Problem {
		p := problemf(code, "capabilities", format, args...)
		if i >= 0 {
			p.Path = "/" + itoa(i)
		}
		return p
	}
	permission.EachWant("tool", d.Capabilities, func(i int, w permission.Want) {
		texts, list = append(texts, w.Text()), append(list, w)
		if !profileAllows(profile, w.Capability) {
			v.Warnings = append(v.Warnings, problem(i, "profile_forbids", "The profile %s never allows %s; a run would be refused.", profile, w.Capability))
		}
	}, func(i int, code, message string) { v.Errors = append(v.Errors, problem(i, code, "%s", message)) })
	return texts, list
}

// checkLimits reports limits above those of the profile.
func checkLimits(d definition, v *Validation) {
	if d.Limits == nil {
		return
	}
	top, ok := sandbox.Profile(string(d.SandboxProfile))
	if !ok {
		return
	}
	l := d.Limits
	for _, c := range []struct {
		name      string
		got, most int64
	}{
		{"wallMs", l.WallMs, top.Wall.Milliseconds()}, {"cpuMs", l.CPUMs, top.CPU.Milliseconds()},
		{"memoryMb", l.MemoryMb, top.MemoryBytes >> 20}, {"outputBytes", l.OutputBytes, top.OutputBytes},
		{"hostCalls", int64(l.HostCalls), int64(top.HostCalls)},
	} {
		if c.got < 0 || c.got > c.most {
			p := problemf("limits", "limits", "The limit %s is %d; the profile %s allows 1 to %d.", c.name, c.got, d.SandboxProfile, c.most)
			p.Path = "/" + c.name
			v.Errors = append(v.Errors, p)
		}
	}
}

// compareUse compares what the code uses with what the tool requests.
func compareUse(a *analysis, list []permission.Want, v *Validation) {
	add := func(line, column int, code, field, format string, args ...any) {
		v.Warnings = append(v.Warnings, Problem{Code: code, Field: field, Message: fmt.Sprintf(format, args...), Line: line, Column: column})
	}
	reported := map[string]bool{}
	for _, h := range a.hosts {
		if reported[h.host+h.port] || hostDeclared(h, list) {
			continue
		}
		reported[h.host+h.port] = true
		name := h.host
		if h.local() && h.port != "" { // for local addresses the port is requested
			name = net.JoinHostPort(name, h.port)
		}
		add(h.line, h.column, "host_without_capability", "code", "The code names the host %s, but no capability covers it.", name)
	}
	for _, w := range list {
		switch w.Capability {
		case permission.FilesystemWrite:
			add(0, 0, "filesystem_write", "capabilities", "The tool asks to write files in its own folder.")
		case permission.NetworkHTTPS:
			if strings.HasPrefix(w.Resource, "*.") {
				add(0, 0, "wildcard", "capabilities", "%s covers every host below %s.", w.Text(), strings.TrimPrefix(w.Resource, "*."))
			}
		}
		if used, ok := memberOf(w.Capability); ok && !a.helixAny && !a.helix[used] {
			add(0, 0, "unused_capability", "capabilities", "No code uses %s.", w.Text())
		}
	}
}

// memberOf returns the member of helix through which a capability is used.
func memberOf(c permission.Capability) (string, bool) {
	switch c {
	case permission.NetworkHTTPS, permission.NetworkLocalhost:
		return "fetch", true
	case permission.FilesystemRead, permission.FilesystemWrite:
		return "fs", true
	case permission.State:
		return "state", true
	case permission.Secret:
		return "secret", true
	case permission.ToolCall:
		return "tool", true
	}
	return "", false
}

// hostDeclared reports whether a declared pattern seems to cover the host. It is only advice:
// package permission decides what a run may reach.
func hostDeclared(h hostUse, list []permission.Want) bool {
	local := h.local()
	for _, w := range list {
		switch {
		case w.Capability == permission.NetworkLocalhost && local:
			if portDeclared(h, w.Resource) {
				return true
			}
		case w.Capability == permission.NetworkHTTPS && !local:
			name, _, _ := strings.Cut(w.Resource, ":")
			if base, wild := strings.CutPrefix(name, "*."); wild && strings.HasSuffix(h.host, "."+base) || name == h.host {
				return true
			}
		}
	}
	return false
}

func (h hostUse) local() bool {
	return h.host == "localhost" || h.host == "127.0.0.1" || h.host == "::1"
}

// portDeclared reports whether a port or a range (3000, 8000-8100) contains the port of an address.
// A port that is only known at run time is assumed to be covered.
func portDeclared(h hostUse, resource string) bool {
	port, err := strconv.Atoi(h.port)
	if err != nil {
		return true
	}
	first, last, ranged := strings.Cut(resource, "-")
	if !ranged {
		last = first
	}
	low, lerr := strconv.Atoi(first)
	high, herr := strconv.Atoi(last)
	return lerr != nil || herr != nil || low <= port && port <= high
}

// saveError returns the error if the checks prevent a save, or nil.
func saveError(v Validation) error {
	if v.Valid {
		return nil
	}
	p := v.Errors[0]
	where := ""
	if p.Line > 0 {
		where = fmt.Sprintf(" (line %d, column %d)", p.Line, p.Column)
	}
	more := ""
	if n := len(v.Errors) - 1; n > 0 {
		more = fmt.Sprintf(" %d more problems were found.", n)
	}
	return fault.Invalidf("The tool was not saved: %s%s%s", p.Message, where, more).WithDetails(v)
}
