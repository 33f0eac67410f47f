package discovery

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/oauth"
	"helix/backend/openapi"
	"helix/backend/storage"
)

// Credential is the state of the credential of one scheme. Its value is never returned.
type Credential struct {
	openapi.Scheme
	State   string   `json:"state"`             // missing or ready
	Hosts   []string `json:"hosts"`             // to which it is sent
	Account string   `json:"account,omitempty"` // user name of basic, client ID of OAuth
	Stored  string   `json:"stored,omitempty"`  // what is stored: apiKey, basic, bearer, oauth2 or clientCredentials
}

// AuthParams store a credential.
type AuthParams struct {
	ManifestID uuid.UUID `json:"manifestId"`
	Scheme     string    `json:"scheme"` // name in the description
	// Kind is apiKey, basic, bearer or clientCredentials; default: that of the scheme. A scheme of OAuth 2 takes
	// a bearer token, or the client ID as user and its secret as value.
	Kind  string `json:"kind,omitempty"`
	User  string `json:"user,omitempty"` // of basic, or client ID
	Value string `json:"value"`          // key, token or password
}

// AuthResult is the state of a credential.
type AuthResult struct {
	State string `json:"state"`
}

// secretOf returns the name of the secret of a scheme, whose own name can have any characters.
func secretOf(tool uuid.UUID, scheme string) string {
	sum := sha256.Sum256([]byte(scheme))
	return "discovery/" + tool.String() + "/" + hex.EncodeToString(sum[:8])
}

// SecretUsers calls add with the name and the user of each secret that holds a credential of the caller's
// tools.
func (s *Service) SecretUsers(ctx context.Context, add func(secret, user string)) error {
	return s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT t.id, t.name, c.scheme FROM tool_credential c JOIN tool_manifest t ON t.id = c.tool_id WHERE c.user_id = ?`, identity.UserID(ctx)).Each(func(row storage.Row) error {
			var id uuid.UUID
			var name, scheme string
			err := row.Scan(&id, &name, &scheme)
			for _, secret := range oauth.SecretNames(secretOf(id, scheme)) {
				add(secret, "API tool "+name)
			}
			return err
		})
	})
}

// SetAuth stores the credential of a scheme. It is encrypted with the key in the keyring, sent only to the
// hosts of the tool, and never returned.
func (s *Service) SetAuth(ctx context.Context, p AuthParams) (AuthResult, error) {
	if p.Kind == kindMachine {
		return s.connect(ctx, p)
	}
	t, err := s.load(ctx, p.ManifestID)
	if err != nil {
		return AuthResult{}, err
	}
	if t.Status == StatusRevoked {
		return AuthResult{}, fault.Conflictf("The tool %s is revoked.", t.Name)
	}
	l, err := s.open(ctx, t)
	if err != nil {
		return AuthResult{}, err
	}
	x, ok := l.doc.Scheme(p.Scheme)
	if !ok || x.Kind == "" {
		return AuthResult{}, fault.InvalidField("scheme", fault.CodeInvalid, "The tool has no authentication named %.100q that can be set up.", p.Scheme)
	}
	kind := x.Kind
	if kind == openapi.OAuth2 {
		kind = openapi.Bearer
	}
	switch {
	case p.Kind != "" && p.Kind != kind:
		return AuthResult{}, fault.InvalidField("kind", fault.CodeInvalid, "%s is of the kind %s.", p.Scheme, kind)
	case len(p.Value) < 4 || len(p.Value) > 8<<10 || strings.ContainsFunc(p.Value, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return AuthResult{}, fault.InvalidField("value", fault.CodeRange, "A credential must have 4 bytes to 8 KiB and no line breaks.")
	case kind != openapi.Basic && p.User != "" || len(p.User) > 200 || strings.ContainsAny(p.User, ":\r\n"):
		return AuthResult{}, fault.InvalidField("user", fault.CodeInvalid, "The user name isn't valid. Only basic authentication has one.")
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		name := secretOf(t.ID, p.Scheme)
		if err := s.deleteTokens(tx, name); err != nil {
			return err
		}
		if err := s.o.Secrets.SetTx(tx, name, []byte(p.Value)); err != nil {
			return err
		}
		return s.saveCredential(tx, t, p.Scheme, kind, p.User, nil)
	})
	return AuthResult{"ready"}, err
}

// ClearAuthParams name a credential.
type ClearAuthParams struct {
	ManifestID uuid.UUID `json:"manifestId"`
	Scheme     string    `json:"scheme"`
}

// ClearAuth removes the credential of a scheme. Tokens of OAuth are revoked at the server that issued them,
// if it offers that.
func (s *Service) ClearAuth(ctx context.Context, p ClearAuthParams) (AuthResult, error) {
	if s.o.OAuth != nil {
		if _, err := s.load(ctx, p.ManifestID); err != nil {
			return AuthResult{}, err
		}
		if _, err := s.o.OAuth.Clear(ctx, secretOf(p.ManifestID, p.Scheme)); err != nil {
			return AuthResult{}, err
		}
	}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		t, err := loadTool(tx, p.ManifestID)
		if err != nil {
			return err
		}
		gone, err := s.forget(tx, t, p.Scheme)
		if err != nil {
			return err
		}
		if len(gone) == 0 {
			return fault.NotFoundf("No credential is set up for %.100q.", p.Scheme)
		}
		return audit.Append(tx, audit.Entry{Action: "secret.deleted", SubjectKind: string(Kind), SubjectID: t.ID.String(), Details: map[string]any{"scheme": p.Scheme}})
	})
	return AuthResult{"missing"}, err
}

// forget removes the credential of a scheme, or of all if it is "", and returns the schemes.
func (s *Service) forget(tx *storage.Tx, t *Tool, scheme string) ([]string, error) {
	gone, err := storage.Collect(tx.Select(`DELETE FROM tool_credential WHERE tool_id = ? AND user_id = ? AND (? = '' OR scheme = ?) RETURNING scheme`, t.ID, t.user, scheme, scheme), storage.RowTo[string])
	if err != nil {
		return nil, err
	}
	for _, g := range gone {
		if err := s.deleteTokens(tx, secretOf(t.ID, g)); err != nil {
			return nil, err
		}
		s.announce(tx, t.user, AuthChanged{ManifestID: t.ID, Scheme: g, State: "missing"})
	}
	return gone, nil
}

// deleteTokens removes the secrets of a credential, if there are any.
func (s *Service) deleteTokens(tx *storage.Tx, name string) error {
	if s.o.OAuth != nil {
		return s.o.OAuth.DeleteTx(tx, name)
	}
	if err := s.o.Secrets.DeleteTx(tx, name); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// credentials returns the state of every scheme that the operations of a tool use.
func (s *Service) credentials(ctx context.Context, t *Tool) ([]Credential, error) {
	l, err := s.open(ctx, t)
	if err != nil {
		return nil, err
	}
	have := map[string]Credential{}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT scheme, kind, hosts, account_hint FROM tool_credential WHERE tool_id = ? AND user_id = ?`, t.ID, t.user).Each(func(row storage.Row) error {
			c := Credential{State: "ready"}
			if err := row.Scan(&c.Name, &c.Stored, storage.JSON(&c.Hosts), &c.Account); err != nil {
				return err
			}
			have[c.Name] = c
			return nil
		})
	})
	out := []Credential{}
	for _, x := range l.doc.Schemes {
		c, ok := have[x.Name]
		if !ok {
			c = Credential{State: "missing", Hosts: t.Hosts}
		}
		c.Scheme = x
		out = append(out, c)
	}
	return out, err
}

// credential returns the stored credential of a scheme for requests to host. ok is false if there is none for it.
func (s *Service) credential(ctx context.Context, j *job, x openapi.Scheme, host string) (c openapi.Credential, ok bool, err error) {
	t := j.tool
	var hosts []string
	var kind string
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT kind, hosts, account_hint FROM tool_credential WHERE tool_id = ? AND user_id = ? AND scheme = ?`, t.ID, t.user, x.Name).Scan(&kind, storage.JSON(&hosts), &c.User)
	})
	if errors.Is(err, sql.ErrNoRows) || err == nil && !slices.Contains(hosts, host) {
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	if (kind == kindOAuth || kind == kindMachine) && !j.dry {
		c.Value, err = s.token(ctx, secretOf(t.ID, x.Name), "")
		j.scheme, j.token = x.Name, c.Value
		return c, err == nil && c.Value != "", err
	}
	value, err := s.o.Secrets.Value(ctx, secretOf(t.ID, x.Name))
	if fault.Is(err, fault.NotFound) {
		return c, false, nil
	}
	c.Value = string(value)
	return c, err == nil, err
}
