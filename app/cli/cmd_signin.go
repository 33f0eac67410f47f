package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"helix/backend/discovery"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/mcp"
	"helix/backend/oauth"
)

type mcpAuthCmd struct {
	mcpNameArg
	ClientID string   `name:"client-id" placeholder:"ID" help:"Needed only if the server doesn't register Helix by itself."`
	Scope    []string `placeholder:"SCOPE" help:"What to ask for; may be repeated. Default: what the server asks for."`
	Clear    bool     `help:"Sign out: remove the tokens and revoke them at the server."`
	Print    bool     `help:"Print the address instead of opening the browser."`
}

func (m *mcpAuthCmd) Run(c *command) error {
	if m.Clear {
		return show(c, "mcp.auth_clear", m.params(), func(r mcp.AuthClearResult) {
			if r.Revoked {
				c.say("Signed out.")
			} else {
				c.say("The tokens are removed from this computer. The server couldn't be told; revoke the access there.")
			}
		})
	}
	return c.signIn("mcp.auth_start", mcp.AuthStartParams{Name: m.Name, ClientID: m.ClientID, Scopes: m.Scope}, "mcp.auth_changed", m.Print, func(data json.RawMessage) (bool, string, string) {
		var e mcp.AuthChanged
		return json.Unmarshal(data, &e) == nil && e.Name == m.Name, e.State, e.Error
	})
}

type openapiAuthStartCmd struct {
	toolArg
	Scheme   string   `arg:"" help:"Name of the authentication, from helix manifest show."`
	ClientID string   `name:"client-id" required:"" placeholder:"ID" help:"Client ID that the provider of the API gave out for Helix."`
	Scope    []string `placeholder:"SCOPE" help:"What to ask for; may be repeated. Default: all of the description."`
	Print    bool     `help:"Print the address instead of opening the browser."`
}

func (o *openapiAuthStartCmd) Run(c *command) error {
	id, err := o.id(c)
	if err != nil {
		return err
	}
	return c.signIn("discovery.oauth_start", discovery.OAuthStartParams{ManifestID: id, Scheme: o.Scheme, ClientID: o.ClientID, Scopes: o.Scope}, "discovery.auth_changed", o.Print, func(data json.RawMessage) (bool, string, string) {
		var e discovery.AuthChanged
		return json.Unmarshal(data, &e) == nil && e.ManifestID == id && e.Scheme == o.Scheme, e.State, e.Error
	})
}

// signIn starts a sign-in, opens its address in the browser, and waits for its end, which an event
// of topic tells.
// read returns whether an event is about it, with the state and why it failed.
func (c *command) signIn(method string, params any, topic string, printOnly bool, read func(json.RawMessage) (bool, string, string)) error {
	var before gateway.EventsState
	if _, err := c.call("events.subscribe", gateway.TopicsParams{Topics: []string{topic}}, &before); err != nil {
		return err
	}
	var flow oauth.Flow
	raw, err := c.call(method, params, &flow)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.printJSON(raw)
	}
	open := c.env.Open
	if open == nil {
		open = openBrowser
	}
	if printOnly || open(c.ctx, flow.AuthURL) != nil {
		fmt.Fprintln(c.env.Stdout, plain(flow.AuthURL))
		c.say("Open this address in a browser on this computer.")
	} else {
		c.say("Sign in in the browser. Waiting…")
	}
	ctx, stop := context.WithDeadline(c.ctx, flow.ExpiresAt)
	defer stop()
	state, why := "", ""
	err = c.conn.Events(ctx, []string{topic}, int64(min(before.Seq, 1<<62)), func(e event) error { //nolint:gosec // bounded
		var params struct{ Data json.RawMessage }
		if err := json.Unmarshal(e.Params, &params); err != nil {
			return err
		}
		if mine, s, w := read(params.Data); mine && state == "" {
			state, why = s, w
			stop()
		}
		return nil
	})
	switch {
	case state == "ready":
		c.say("Signed in.")
		return nil
	case state != "":
		return fault.Deniedf("%s", first(plain(why), "The sign-in was canceled."))
	case err != nil:
		return err
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	}
	return fault.New(fault.Timeout, "Nobody signed in in time. Run the command again.")
}
