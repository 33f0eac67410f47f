package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/gateway"
)

type rpcCmd struct {
	Method string `arg:"" help:"Method name, as listed by rpc.discover."`
	Params string `arg:"" optional:"" help:"JSON object, - or @file."`

	Key uuid.UUID `help:"Idempotency key: a call is carried out once, and repeats with its key get the same answer, also after a lost connection." placeholder:"UUID"`
}

func (r *rpcCmd) Run(c *command) error {
	params, err := c.input(r.Params)
	if err != nil {
		return err
	}
	if params == nil {
		params = json.RawMessage("{}")
	}
	if r.Key != uuid.Nil {
		c.ctx = gateway.WithIdempotencyKey(c.ctx, r.Key)
	}
	raw, err := c.call(r.Method, params, nil)
	if err != nil {
		return err
	}
	return c.printJSON(raw)
}

type eventsCmd struct {
	Topics []string `arg:"" optional:"" help:"Event names; memory.* matches a group. Default: all."`
	After  int64    `default:"-1" help:"First replay events after this sequence number."`
}

func (e *eventsCmd) Run(c *command) error {
	if err := c.connect(); err != nil {
		return err
	}
	if len(e.Topics) == 0 {
		e.Topics = []string{"*"}
	}
	enc := json.NewEncoder(c.env.Stdout)
	return c.conn.Events(c.ctx, e.Topics, e.After, func(ev event) error { return enc.Encode(ev) })
}

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Create a token. It is printed once."`
	List   tokenListCmd   `cmd:"" help:"List tokens."`
	Revoke struct {
		ID string `arg:"" help:"ID from token list."`
	} `cmd:"" help:"Revoke a token and end its sessions." call:"tokens.revoke" say:"Revoked."`
	Rotate struct{} `cmd:"" help:"Replace the command line's token." call:"tokens.rotate_root" say:"The command line's token was replaced; sessions that used the old one have ended."`
}

type tokenCreateCmd struct {
	Name    string        `arg:"" help:"What the token is for."`
	Scopes  []string      `help:"read, write, approve, admin." default:"read"`
	Expires time.Duration `help:"Valid for this long; default: until revoked."`
}

func (t *tokenCreateCmd) Run(c *command) error {
	p := map[string]any{"name": t.Name, "scopes": t.Scopes}
	if t.Expires > 0 {
		p["expiresAt"] = time.Now().Add(t.Expires).UTC()
	}
	return show(c, "tokens.create", p, func(r struct{ ID, Token string }) {
		fmt.Fprintln(c.env.Stdout, r.Token)
		c.say("Token %s created. It won't be shown again.", r.ID)
	})
}

type tokenListCmd struct{}

func (t *tokenListCmd) Run(c *command) error {
	return show(c, "tokens.list", struct{}{}, func(r gateway.TokenList) {
		list(c, r.Tokens, "No extra tokens. The command line on this computer doesn't need one.", []string{"ID", "NAME", "SCOPES", "USED", "STATE"}, func(t gateway.TokenInfo) []string {
			state := "active"
			if t.RevokedAt != nil {
				state = "revoked " + ago(*t.RevokedAt)
			} else if t.ExpiresAt != nil {
				state = "until " + t.ExpiresAt.Local().Format(time.DateTime)
			}
			used := "never"
			if t.LastUsedAt != nil {
				used = ago(*t.LastUsedAt)
			}
			return []string{t.ID.String(), t.Name, strings.Join(t.Scopes, ","), used, state}
		})
	})
}

type configCmd struct {
	Get  configGetCmd  `cmd:"" help:"Print a setting."`
	Set  configSetCmd  `cmd:"" help:"Change a setting."`
	List configListCmd `cmd:"" help:"List all settings with their values and origins."`
	Path configPathCmd `cmd:"" help:"Print the path of config.toml."`
}

type configGetCmd struct {
	Key string `arg:""`
}

type configValues struct {
	Values  map[string]json.RawMessage `json:"values"`
	Sources map[string]string          `json:"sources"`
}

func (g *configGetCmd) Run(c *command) error {
	return show(c, "config.get", map[string]any{"keys": []string{g.Key}}, func(r configValues) {
		fmt.Fprintln(c.env.Stdout, bare(r.Values[g.Key]))
	})
}

// bare returns a JSON string without its quotes, and anything else unchanged.
func bare(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

type configSetCmd struct {
	Key   string `arg:""`
	Value string `arg:"" optional:"" help:"JSON, or plain text for a string."`
	Reset bool   `help:"Reset to the default."`
}

func (s *configSetCmd) Run(c *command) error {
	var v any = s.Value
	if s.Reset {
		v = nil
	} else if json.Valid([]byte(s.Value)) {
		v = json.RawMessage(s.Value)
	}
	return show(c, "config.set", map[string]any{"values": map[string]any{s.Key: v}}, func(r struct{ Applied, Restart []string }) {
		if len(r.Restart) > 0 {
			c.say("Saved. Restart Helix to apply it.")
		} else {
			c.say("Saved.")
		}
	})
}

type configListCmd struct{}

func (l *configListCmd) Run(c *command) error {
	return show(c, "config.get", struct{}{}, func(r configValues) {
		list(c, sortedKeys(r.Values), "", []string{"KEY", "VALUE", "SOURCE"}, func(k string) []string {
			return []string{k, bare(r.Values[k]), r.Sources[k]}
		})
	})
}
