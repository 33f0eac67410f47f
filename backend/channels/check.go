package channels

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"helix/backend/fault"
	"helix/backend/safehttp"
	"helix/backend/storage"
)

// TestStep is a step of the test of a channel.
type TestStep struct {
	Step  string `json:"step"` // device, settings, connect or senders
	OK    bool   `json:"ok"`
	Ms    int64  `json:"ms"`
	Error string `json:"error,omitempty"` // what is wrong
	Hint  string `json:"hint,omitempty"`  // what to do about it
}

// TestResult lists the steps up to the first that failed.
type TestResult struct {
	OK    bool       `json:"ok"`
	Steps []TestStep `json:"steps"`
}

// tester is an adapter that can check its service without a message to a person.
type tester interface {
	// test returns what to do if it fails.
	test(ctx context.Context) (hint string, err error)
}

// Test checks a channel step by step: that it belongs to this device, its settings, that its service
// answers, and that somebody is allowed to use it. It works while the channel is off, and sends nothing
// to a person.
func (s *Service) Test(ctx context.Context, p IDParams) (out TestResult, err error) {
	var c channelRow
	var senders int
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		if c, err = loadChannel(tx, p.ID); err != nil {
			return err
		}
		return tx.QueryRow(`SELECT count(*) FROM channel_senders WHERE channel_id = ?`, p.ID).Scan(&senders)
	})
	if err != nil {
		return out, err
	}
	var a Adapter
	out.OK = true
	out.Steps = []TestStep{}
	step := func(name string, act func() (hint string, err error)) {
		if !out.OK {
			return
		}
		began := time.Now()
		hint, err := act()
		t := TestStep{Step: name, OK: err == nil, Ms: time.Since(began).Milliseconds()}
		if err != nil {
			t.Error, t.Hint, out.OK = fault.As(err).Message, hint, false
		}
		out.Steps = append(out.Steps, t)
	}
	step("device", func() (string, error) {
		if c.device != s.db.Device().ID {
			return "Take the channel over to run it here.", fault.Conflictf("This channel runs on another device.")
		}
		return "", nil
	})
	step("settings", func() (hint string, err error) {
		a, err = s.adapter(ctx, &c)
		return "Correct the settings, or remove the channel and add it again.", err
	})
	step("connect", func() (string, error) {
		t, ok := a.(tester)
		if !ok {
			return "", nil
		}
		return t.test(ctx)
	})
	step("senders", func() (string, error) {
		if senders == 0 {
			return "Pair a sender, or allow one by id.", fault.Deniedf("Nobody is allowed to use this channel: every message is refused.")
		}
		return "", nil
	})
	return out, nil
}

// test implements tester: it connects to the host of the URL without posting a message.
func (w *webhook) test(ctx context.Context) (string, error) {
	defer w.client.Close()
	u, err := url.Parse(w.c.config.URL)
	if err != nil {
		return "", err
	}
	u.Path, u.RawPath, u.RawQuery = "/", "", ""
	// Any answer will do: it shows that the name, the connection and the certificate are right.
	_, err = w.client.Do(ctx, safehttp.Request{Method: http.MethodHead, URL: u.String()})
	return "Check that the receiver is running and that its address is right.", err
}

// test implements tester: it asks Telegram whose token it is.
func (t *telegram) test(ctx context.Context) (string, error) {
	defer t.client.Close()
	return "Check the token, and that this computer reaches Telegram.", t.identify(ctx)
}
