package safehttp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"helix/backend/fault"
)

// TestStreamMovesBothWaysAtOnce sends a line, reads its echo, and only then sends the next.
func TestStreamMovesBothWaysAtOnce(t *testing.T) {
	t.Parallel()
	c, s := local(t, Options{Timeout: time.Nanosecond}, func(w http.ResponseWriter, r *http.Request) { // the time-out of Do does not count
		control := http.NewResponseController(w)
		if err := errors.Join(control.EnableFullDuplex(), control.Flush()); err != nil {
			t.Error(err)
		}
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			io.WriteString(w, strings.ToUpper(lines.Text())+"\n") //nolint:errcheck // the client reads it
			control.Flush()                                       //nolint:errcheck // as above
		}
	})
	source, write := io.Pipe()
	res, err := c.Stream(t.Context(), StreamRequest{Request: Request{Method: "POST", URL: s.URL}, Reader: source, Idle: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answers := bufio.NewReader(res.Body)
	for _, word := range []string{"one", "two", "three"} {
		if _, err := io.WriteString(write, word+"\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := answers.ReadString('\n'); err != nil || line != strings.ToUpper(word)+"\n" {
			t.Fatalf("%s came back as %q, %v", word, line, err)
		}
	}
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := answers.ReadByte(); err != io.EOF {
		t.Errorf("after the end of the body: %v", err)
	}
}

// TestStreamEndsWhenNothingMoves waits for servers that stall before and during the response.
func TestStreamEndsWhenNothingMoves(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]bool{"before the header": false, "in the body": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s := local(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				if header {
					io.WriteString(w, "begun")            //nolint:errcheck // the client reads it
					http.NewResponseController(w).Flush() //nolint:errcheck // as above
				}
				<-r.Context().Done()
			})
			res, err := c.Stream(t.Context(), StreamRequest{Request: Request{URL: s.URL}, Idle: 50 * time.Millisecond})
			if err == nil {
				var got []byte
				if got, err = io.ReadAll(res.Body); string(got) != "begun" {
					t.Errorf("read %q", got)
				}
				_ = res.Body.Close()
			}
			if !fault.Is(err, fault.Timeout) {
				t.Errorf("ended with %v, want a timeout", err)
			}
		})
	}
}

// TestStreamOutlivesItsIdleLimitWhileBytesMove has delays between bytes that keep arriving.
func TestStreamOutlivesItsIdleLimitWhileBytesMove(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	c, s := local(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		for range next {
			io.WriteString(w, "x")                //nolint:errcheck // the client reads it
			http.NewResponseController(w).Flush() //nolint:errcheck // as above
		}
	})
	go func() { next <- struct{}{} }()
	res, err := c.Stream(t.Context(), StreamRequest{Request: Request{URL: s.URL}, Idle: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	idle := res.Body.(*streamBody).idle
	for n := range 3 {
		if n > 0 {
			next <- struct{}{}
		}
		if b := make([]byte, 1); true {
			if _, err := io.ReadFull(res.Body, b); err != nil {
				t.Fatal(err)
			}
		}
		idle.mu.Lock()
		if idle.waiting {
			t.Error("the limit runs while the caller does something else")
		}
		idle.mu.Unlock()
	}
	close(next)
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) != 0 {
		t.Errorf("the rest is %q, %v", rest, err)
	}
}

func TestStreamKeepsTheRulesOfDo(t *testing.T) {
	t.Parallel()
	c, s := local(t, Options{MaxBody: 4}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
		case "/silent":
			<-r.Context().Done()
		default:
			io.WriteString(w, "12345") //nolint:errcheck // the client reads it
		}
	})
	stream := func(ctx context.Context, r StreamRequest) (string, error) {
		res, err := c.Stream(ctx, r)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return string(b), err
	}
	if got, err := stream(t.Context(), StreamRequest{Request: Request{URL: s.URL}}); got != "1234" || !fault.Is(err, fault.Limit) {
		t.Errorf("above the limit: %q, %v", got, err)
	}
	if got, err := stream(t.Context(), StreamRequest{Request: Request{URL: s.URL}, MaxBody: -1}); got != "12345" || err != nil {
		t.Errorf("without a limit: %q, %v", got, err)
	}
	if got, err := stream(t.Context(), StreamRequest{Request: Request{Method: "POST", URL: s.URL + "/away", Body: []byte("x")}, MaxBody: -1}); got != "12345" || err != nil {
		t.Errorf("a redirect of bytes: %q, %v", got, err)
	}
	if _, err := stream(t.Context(), StreamRequest{Request: Request{Method: "POST", URL: s.URL + "/away"}, Reader: strings.NewReader("x")}); !errors.Is(err, ErrRedirect) {
		t.Errorf("a redirect of a stream: %v", err)
	}
	if _, err := stream(t.Context(), StreamRequest{Request: Request{URL: "https://10.0.0.1/"}}); !errors.Is(err, ErrAddress) {
		t.Errorf("a private address: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := stream(ctx, StreamRequest{Request: Request{URL: s.URL + "/silent"}}); !fault.Is(err, fault.Canceled) {
		t.Errorf("a canceled one: %v", err)
	}
}
