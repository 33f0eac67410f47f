package tools

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/storage"
	"helix/backend/wasmtools"
)

// SecretSetParams stores a secret for tools. The value is sent only in requests to Hosts.
type SecretSetParams struct {
	Name    string      `json:"name"`    // 1..64 letters, digits, "_", "-" or "."
	Value   string      `json:"value"`   // 4 bytes to 8 KiB
	Hosts   []string    `json:"hosts"`   // exact hosts or *.example.com
	ToolIDs []uuid.UUID `json:"toolIds"` // tools of either kind that may use it; empty: all
}

// SecretName names a secret.
type SecretName struct {
	Name string `json:"name"`
}

// SecretInfo is a secret without its value, which is never returned.
type SecretInfo struct {
	Name      string      `json:"name"`
	Hosts     []string    `json:"hosts"`
	ToolIDs   []uuid.UUID `json:"toolIds"`
	UpdatedAt time.Time   `json:"updatedAt"`
}

// SecretsResult lists the secrets, sorted by name.
type SecretsResult struct {
	Secrets []SecretInfo `json:"secrets"`
}

// Limits of secrets.
const (
	minSecret      = 4 // masking anything shorter would damage ordinary text
	maxSecret      = 8 << 10
	maxSecretHosts = 32
	secretTable    = "tool_secrets"
	secretColumn   = "value"
)

var secretName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// SecretSet stores or replaces a secret. Its value is encrypted with the key in the keyring and is
// never returned by any method.
func (s *Service) SecretSet(ctx context.Context, p SecretSetParams) (struct{}, error) {
	none := struct{}{}
	if !secretName.MatchString(p.Name) {
		return none, fault.Invalidf("A secret's name must have 1 to 64 letters, digits, underscores, hyphens or dots.")
	}
	if len(p.Value) < minSecret || len(p.Value) > maxSecret {
		return none, fault.Invalidf("A secret must have %d to %d bytes.", minSecret, maxSecret)
	}
	hosts, err := checkHosts(p.Hosts)
	if err != nil {
		return none, err
	}
	user := identity.UserID(ctx)
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		for _, id := range p.ToolIDs {
			if err := ownRunnable(tx, id); err != nil {
				return err
			}
		}
		id, err := secretID(tx, user, p.Name)
		if errors.Is(err, sql.ErrNoRows) {
			id, err = storage.NewID(), nil
		}
		if err != nil {
			return err
		}
		sealed, err := s.db.Keys().Seal(secretTable, secretColumn, id, []byte(p.Value))
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO tool_secrets (id, user_id, name, hosts, tool_ids, value, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (user_id, name) DO UPDATE SET hosts = excluded.hosts, tool_ids = excluded.tool_ids, value = excluded.value, updated_at = excluded.updated_at`,
			id, user, p.Name, lifecycle.Text(hosts), lifecycle.Text(orEmpty(p.ToolIDs)), sealed, tx.Now, tx.Now); err != nil {
			return err
		}
		s.announce(tx, uuid.Nil, "secrets")
		return audit.Append(tx, audit.Entry{Action: "secret.set", SubjectKind: "secret", SubjectID: p.Name, Details: map[string]any{"hosts": hosts, "tools": len(p.ToolIDs)}})
	})
	return none, err
}

// ownRunnable returns nil if the caller has a tool of either kind with the id.
func ownRunnable(tx *storage.Tx, id uuid.UUID) error {
	_, err := ownTool(tx, id)
	if fault.Is(err, fault.NotFound) {
		if _, serr := wasmtools.Load(tx, id); !fault.Is(serr, fault.NotFound) {
			return serr
		}
	}
	return err
}

func secretID(tx *storage.Tx, user uuid.UUID, name string) (id uuid.UUID, err error) {
	err = tx.QueryRow(`SELECT id FROM tool_secrets WHERE user_id = ? AND name = ?`, user, name).Scan(&id)
	return id, err
}

// checkHosts normalizes hosts as for network:https. localhost is not allowed, because any program
// on this computer may listen there.
func checkHosts(hosts []string) ([]string, error) {
	out := []string{}
	if len(hosts) == 0 || len(hosts) > maxSecretHosts {
		return nil, fault.Invalidf("List 1 to %d hosts that the secret can be sent to.", maxSecretHosts)
	}
	for _, h := range hosts {
		n, err := permission.Normalize(permission.NetworkHTTPS, h)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out, nil
}

// SecretDelete deletes a secret. Active runs lose it at their next call.
func (s *Service) SecretDelete(ctx context.Context, p SecretName) (struct{}, error) {
	user := identity.UserID(ctx)
	return struct{}{}, s.db.Write(ctx, func(tx *storage.Tx) error {
		r, err := tx.Exec(`DELETE FROM tool_secrets WHERE user_id = ? AND name = ?`, user, p.Name)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			if err == nil {
				err = fault.NotFoundf("Secret not found.")
			}
			return err
		}
		s.announce(tx, uuid.Nil, "secrets")
		return audit.Append(tx, audit.Entry{Action: "secret.deleted", SubjectKind: "secret", SubjectID: p.Name})
	})
}

// Secrets lists the secrets without their values.
func (s *Service) Secrets(ctx context.Context, _ struct{}) (SecretsResult, error) {
	out := SecretsResult{Secrets: []SecretInfo{}}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT name, hosts, tool_ids, updated_at FROM tool_secrets WHERE user_id = ? ORDER BY name`, identity.UserID(ctx)).Each(func(row storage.Row) error {
			x := SecretInfo{Hosts: []string{}, ToolIDs: []uuid.UUID{}}
			if err := row.Scan(&x.Name, storage.JSON(&x.Hosts), storage.JSON(&x.ToolIDs), storage.Time(&x.UpdatedAt)); err != nil {
				return err
			}
			out.Secrets = append(out.Secrets, x)
			return nil
		})
	})
	return out, err
}

// SecretValues returns the values of the caller's secrets by name, for masking them in texts. They
// must not leave the backend.
func (s *Service) SecretValues(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	return out, s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT id, name, value FROM tool_secrets WHERE user_id = ?`, identity.UserID(ctx)).Each(func(row storage.Row) error {
			var id uuid.UUID
			var name string
			var sealed []byte
			if err := row.Scan(&id, &name, &sealed); err != nil {
				return err
			}
			plain, err := s.db.Keys().Unseal(secretTable, secretColumn, id, sealed)
			out[name] = string(plain)
			return err
		})
	})
}

// openSecret is a secret with its value. It never leaves the host.
type openSecret struct {
	name  string
	value string
	hosts []string
	tools []uuid.UUID
}

// loadSecret decrypts a secret. The error is NotFound if it does not exist or the tool may not use
// it, and Unavailable while the key is locked.
func (s *Service) loadSecret(ctx context.Context, user, tool uuid.UUID, name string) (*openSecret, error) {
	x := &openSecret{name: name}
	var id uuid.UUID
	var sealed []byte
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		err := tx.QueryRow(`SELECT id, value, hosts, tool_ids FROM tool_secrets WHERE user_id = ? AND name = ?`, user, name).
			Scan(&id, &sealed, storage.JSON(&x.hosts), storage.JSON(&x.tools))
		if errors.Is(err, sql.ErrNoRows) {
			return fault.NotFoundf("Secret %q not found.", name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(x.tools) > 0 && !slices.Contains(x.tools, tool) {
		return nil, fault.NotFoundf("Secret %q not found.", name)
	}
	plain, err := s.db.Keys().Unseal(secretTable, secretColumn, id, sealed)
	if err != nil {
		return nil, err
	}
	x.value = string(plain)
	return x, nil
}

// covers reports whether the secret may be sent to host:port.
func (x *openSecret) covers(hostPort string) bool {
	for _, h := range x.hosts {
		if permission.Covers(permission.NetworkHTTPS, h, hostPort) {
			return true
		}
	}
	return false
}

// runSecret is a secret that a run has a placeholder for.
type runSecret struct {
	name        string
	placeholder string
	values      []string // its values during the run, to mask even after it was deleted
	forget      []func()
}

// checkSecrets returns an error before the start of a run that needs a secret that cannot be decrypted.
func (e *execution) checkSecrets(ctx context.Context) error {
	for _, w := range e.wants {
		if w.Capability != permission.Secret {
			continue
		}
		_, err := e.s.loadSecret(ctx, e.user, e.tool.ID, w.Resource)
		if fault.Is(err, fault.Unavailable) {
			return fault.Unavailablef("The tool needs the secret %q, and the key that opens it is locked. Unlock the keyring, then run the tool again.", w.Resource).WithCause(err)
		}
		if err != nil && !fault.Is(err, fault.NotFound) { // a missing one is reported when the tool uses it
			return err
		}
	}
	return nil
}

// secret returns a placeholder. The value stays in the host.
func (h *host) secret(ctx context.Context, c *call, p sandbox.NameRequest) (sandbox.SecretResponse, error) {
	if !secretName.MatchString(p.Name) {
		return sandbox.SecretResponse{}, fault.Invalidf("This isn't a valid secret name.")
	}
	if err := c.allow(ctx, permission.Secret, p.Name, audit.ResourceAccess); err != nil {
		return sandbox.SecretResponse{}, err
	}
	x, err := h.e.s.loadSecret(ctx, h.e.user, h.e.tool.ID, p.Name)
	if err != nil {
		return sandbox.SecretResponse{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.secrets[p.Name]; l != nil {
		return sandbox.SecretResponse{Placeholder: l.placeholder}, nil
	}
	var raw [16]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return sandbox.SecretResponse{}, err
	}
	l := &runSecret{name: p.Name, placeholder: placeholderPrefix + hex.EncodeToString(raw[:])}
	h.know(l, x.value)
	h.secrets[p.Name] = l
	return sandbox.SecretResponse{Placeholder: l.placeholder}, nil
}

// placeholderPrefix starts every placeholder; the rest is random for each run.
const placeholderPrefix = "helix-secret-"

// know registers a value of l to be masked everywhere. The caller must hold h.mu.
func (h *host) know(l *runSecret, value string) {
	if !slices.Contains(l.values, value) {
		l.values = append(l.values, value)
		l.forget = append(l.forget, h.e.s.audit.KnowSecret(value))
	}
}

// close discards the run's secrets.
func (h *host) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.secrets {
		for _, f := range l.forget {
			f()
		}
		l.forget = nil
	}
}

// secretValues returns the values that must be masked.
func (h *host) secretValues() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, l := range h.secrets {
		out = append(out, l.values...)
	}
	return out
}

// scrub masks the values of the run's secrets in text.
func (h *host) scrub(text string) string { return string(h.scrubBytes([]byte(text))) }

func (h *host) scrubBytes(b []byte) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.secrets {
		for _, v := range l.values {
			for _, f := range forms(v) {
				b = bytes.ReplaceAll(b, []byte(f), []byte("[secret "+l.name+"]"))
			}
		}
	}
	return b
}

// forms returns the forms in which a response may repeat a value: unchanged, as in the address, in
// JSON and in base64.
func forms(value string) []string {
	inside := func(quoted []byte) string { return string(quoted[min(1, len(quoted)):max(len(quoted)-1, 0)]) }
	forHTML, err := json.Marshal(value)
	if err != nil {
		forHTML = nil // never: a string always has a JSON form
	}
	all := []string{value}
	for _, f := range []string{url.QueryEscape(value), url.PathEscape(value), inside(lifecycle.Text(value)), inside(forHTML), base64.StdEncoding.EncodeToString([]byte(value))} {
		if f != "" && !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

func (h *host) scrubJSON(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.secrets {
		for _, v := range l.values {
			q := lifecycle.Text(v)
			raw = bytes.ReplaceAll(raw, q[1:len(q)-1], []byte("[secret "+l.name+"]"))
		}
	}
	return raw
}

// fill replaces placeholders in text that is sent to hostPort over https. The call is refused if a
// placeholder is for a secret that may not be sent there or has been deleted.
func (h *host) fill(ctx context.Context, hostPort, text string, escape func(string) string, used map[string]bool) (string, error) {
	if !strings.Contains(text, placeholderPrefix) {
		return text, nil
	}
	h.mu.Lock()
	secrets := make([]*runSecret, 0, len(h.secrets))
	for _, l := range h.secrets {
		secrets = append(secrets, l)
	}
	h.mu.Unlock()
	for _, l := range secrets {
		if !strings.Contains(text, l.placeholder) {
			continue
		}
		x, err := h.e.s.loadSecret(ctx, h.e.user, h.e.tool.ID, l.name)
		if err != nil {
			return "", err
		}
		if hostPort == "" || !x.covers(hostPort) {
			return "", (&fault.Error{Kind: fault.Denied, Message: "The secret " + l.name + " may not be sent there: it goes only over https to the hosts on its list."}).
				WithDetails(sandbox.Refusal{Reason: sandbox.ReasonCapability, Capability: permission.FormatCapability(permission.Secret, l.name), Resource: hostPort})
		}
		h.mu.Lock()
		h.know(l, x.value) // it may have been replaced during the run
		h.mu.Unlock()
		used[l.name] = true
		value := x.value
		if escape != nil {
			value = escape(value)
		}
		text = strings.ReplaceAll(text, l.placeholder, value)
	}
	return text, nil
}
