package safehttp

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"code.dny.dev/ssrf"
)

func TestPrivateAddressesNeedTheExceptionOfTheRequest(t *testing.T) {
	t.Parallel()
	c := New(Options{AllowLoopback: func(int) bool { return true }})
	t.Cleanup(c.Close)
	guard := ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(azureWire))
	for address, want := range map[string][3]bool{ // without it, with https, with http
		"10.0.0.1:80":           {false, true, true},
		"192.168.1.5:11434":     {false, true, true},
		"[fd12::1]:443":         {false, true, true},
		"1.1.1.1:443":           {true, true, false},
		"127.0.0.1:80":          {false, false, false}, // only if the URL names this computer
		"[::1]:80":              {false, false, false},
		"169.254.169.254:80":    {false, false, false},
		"[fd00:ec2::254]:80":    {false, false, false},
		"168.63.129.16:80":      {false, false, false},
		"100.64.0.1:80":         {false, false, false},
		"[fe80::1]:80":          {false, false, false},
		"[::ffff:10.0.0.1]:443": {false, false, false},
		"0.0.0.0:80":            {false, false, false},
	} {
		network := "tcp4"
		if address[0] == '[' {
			network = "tcp6"
		}
		for i, ctx := range []context.Context{t.Context(), context.WithValue(t.Context(), privateKey{}, "https"), context.WithValue(t.Context(), privateKey{}, "http")} {
			if err := c.checkDial(ctx, guard, network, address, nil); (err == nil) != want[i] || err != nil && !errors.Is(err, ErrAddress) {
				t.Errorf("%s, case %d: %v", address, i, err)
			}
		}
	}
	if _, err := get(t, c, "http://10.0.0.1/"); !errors.Is(err, ErrScheme) {
		t.Error(err)
	}
}

func TestPrivateAddressMayNotRedirectElsewhere(t *testing.T) {
	t.Parallel()
	c, s := local(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://example.com/", http.StatusFound)
	})
	if _, err := c.Do(t.Context(), Request{URL: s.URL, AllowPrivate: true}); !errors.Is(err, ErrRedirect) {
		t.Error(err)
	}
}
