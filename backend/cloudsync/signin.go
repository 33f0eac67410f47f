package cloudsync

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/mail"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// This file signs a person in to a hub that Supabase hosts, with a code sent by e-mail, to connect their
// first device. The sign-in is needed only once: afterwards the device has a database role of its own.

// Project identifies a Supabase project and the account of a person in it.
type Project struct {
	URL            string `json:"url"`
	PublishableKey string `json:"publishableKey"`
	Email          string `json:"email"`
}

const (
	signInTime = 30 * time.Second
	signInSize = 1 << 20 // bytes of an answer
)

// SignIn sends a code to the person's e-mail address, with which Setup connects this device.
func (s *Service) SignIn(ctx context.Context, p Project) (struct{}, error) {
	if err := p.check(); err != nil {
		return struct{}{}, err
	}
	if err := s.notEnrolled(ctx); err != nil {
		return struct{}{}, err
	}
	return struct{}{}, p.call(ctx, "/auth/v1/otp", "", map[string]any{"email": p.Email, "create_user": true}, &struct{}{})
}

// check reports what is wrong with the project. A key that opens more than a signed-in user may see is
// refused, because it should not be on a device.
func (p *Project) check() error {
	u, err := url.Parse(p.URL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !onThisComputer(u.Hostname())) {
		return fault.InvalidField("url", fault.CodeInvalid, "Enter the https address of the project, such as https://abc.supabase.co.")
	}
	p.URL = strings.TrimRight(p.URL, "/")
	if p.PublishableKey == "" {
		return fault.InvalidField("publishableKey", fault.CodeInvalid, "Enter the publishable key of the project.")
	}
	if secretKey(p.PublishableKey) {
		return fault.InvalidField("publishableKey", fault.CodeInvalid, "This is a secret key. Use the publishable key.")
	}
	if a, err := mail.ParseAddress(p.Email); err != nil || a.Address != p.Email {
		return fault.InvalidField("email", fault.CodeInvalid, "Enter an e-mail address.")
	}
	return nil
}

// secretKey reports whether a key is not a publishable one: by its prefix, or if it is a token, by its role.
func secretKey(key string) bool {
	parts := strings.Split(key, ".")
	if len(parts) != 3 {
		return !strings.HasPrefix(key, "sb_publishable_")
	}
	var claims struct{ Role string }
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err != nil || json.Unmarshal(text, &claims) != nil || claims.Role != "anon"
}

// call sends a request to the project. token is the person's; "" before they have signed in.
func (p Project) call(ctx context.Context, path, token string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, signInTime)
	defer cancel()
	status, text, err := p.post(ctx, path, token, in, signInSize)
	switch {
	case err != nil:
		return err
	case status/100 != 2:
		return p.refusal(status, text)
	case len(bytes.TrimSpace(text)) == 0:
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fault.Unavailablef("%s sent an answer that Helix can't read.", p.host()).WithCause(err)
	}
	return nil
}

func (p Project) host() string {
	u, _ := url.Parse(p.URL) // it was checked
	return u.Host
}

// post sends a request to the project and returns at most limit bytes of its answer.
func (p Project) post(ctx context.Context, path, token string, in any, limit int64) (status int, text []byte, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("apikey", p.PublishableKey)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // a redirect would carry the key elsewhere
	defer client.CloseIdleConnections()
	a, err := client.Do(r)
	if err != nil {
		return 0, nil, hubError(p.host(), err)
	}
	defer a.Body.Close() //nolint:errcheck // read to the end
	text, err = io.ReadAll(io.LimitReader(a.Body, limit))
	return a.StatusCode, text, hubError(p.host(), err)
}

// refusal converts an answer that reports an error.
func (p Project) refusal(status int, text []byte) error {
	var e struct{ Code any }
	_ = json.Unmarshal(text, &e) // the status says enough
	switch {
	case e.Code == "PGRST202" || e.Code == "PGRST106":
		return fault.Unavailablef("This project has no Helix schema. Its owner must run `helix sync setup`.")
	case e.Code == "HX004":
		return fault.Conflictf("This account already has a device. Add this one with a link from another device, or with the recovery code.")
	case status == http.StatusTooManyRequests:
		return fault.Limitf("%s refused the request: too many in a short time. Wait a minute, then try again.", p.host())
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		return fault.Deniedf("%s refused the sign-in: the code or the publishable key is wrong, or the code has expired.", p.host())
	}
	return fault.Unavailablef("%s answered with status %d.", p.host(), status)
}

// enroll signs in with a code from an e-mail and registers this device. It keeps the sign-in in x.
func (p Project) enroll(ctx context.Context, code string, device map[string]any, x *session) (h hubConfig, d registration, err error) {
	var a signedIn
	if err := p.call(ctx, "/auth/v1/verify", "", map[string]any{"type": "email", "email": p.Email, "token": strings.TrimSpace(code)}, &a); err != nil {
		return h, d, err
	}
	x.use(a)
	device["digest"] = x.digest()
	var hub struct {
		registration
		Host  string    `json:"host"`
		Port  int       `json:"port"`
		DB    string    `json:"dbname"`
		HubID uuid.UUID `json:"hubId"`
		HTTPS bool      `json:"https"`
	}
	if err := p.call(ctx, "/rest/v1/rpc/helix_enrol", a.Token, map[string]any{"p": device}, &hub); err != nil {
		return h, d, err
	}
	if hub.Host == "" {
		return h, d, fault.Unavailablef("This project does not know the address of its database. Its owner must run `helix sync setup` again.")
	}
	d = hub.registration
	d.HubID = hub.HubID
	h = hubConfig{Host: hub.Host, Port: hub.Port, Database: hub.DB, Role: d.Role, Device: d.DeviceID, Channel: d.Channel}
	if hub.HTTPS && a.Refresh != "" {
		h.Project = &p
	}
	return h, d, nil
}
