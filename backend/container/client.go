package container

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// apiVersion is the lowest version of the Engine API that has all that is used.
const apiVersion = "1.41"

// maxAnswer is how much of an answer is read.
const maxAnswer = 16 << 20

// client speaks the Engine API over a Unix socket.
type client struct {
	socket  string
	version string // that requests name; "": none
	http    *http.Client
}

func newClient(socket string) *client {
	var d net.Dialer
	return &client{socket: socket, http: &http.Client{Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) },
		MaxIdleConnsPerHost: removals, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
	}}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// apiError is an error that the engine answered.
type apiError struct {
	status  int
	message string
}

func (e *apiError) Error() string { return fmt.Sprintf("engine: %d: %s", e.status, e.message) }

func readError(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	var m struct {
		Message string `json:"message"`
		Cause   string `json:"cause"`
	}
	if json.Unmarshal(b, &m) != nil || m.Message == "" {
		m.Message = strings.TrimSpace(string(b))
	}
	return &apiError{resp.StatusCode, m.Message}
}

// send makes a request. body is sent as JSON, or as it is if it is a reader. The caller closes the answer.
func (c *client) send(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var r io.Reader
	kind := "application/json"
	switch b := body.(type) {
	case nil:
	case io.Reader:
		r, kind = b, "application/x-tar"
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.address(path, query), r)
	if err != nil {
		return nil, err
	}
	if r != nil {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 && resp.StatusCode != http.StatusNotModified {
		defer resp.Body.Close()
		return nil, readError(resp)
	}
	return resp, nil
}

func (c *client) address(path string, query url.Values) string {
	u := "http://engine" + path
	if c.version != "" {
		u = "http://engine/v" + c.version + path
	}
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	return u
}

// call makes a request and decodes the answer into out; nil: it is dropped.
func (c *client) call(ctx context.Context, method, path string, query url.Values, body, out any) error {
	resp, err := c.send(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := io.LimitReader(resp.Body, maxAnswer)
	if out == nil {
		_, err = io.Copy(io.Discard, answer)
		return err
	}
	return json.NewDecoder(answer).Decode(out)
}

// stream is the attached input and output of a container.
type stream struct {
	conn *net.UnixConn
	r    *bufio.Reader
}

// attach connects to the input and output of a container that has not started yet.
func (c *client) attach(ctx context.Context, id string) (*stream, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) }) //nolint:errcheck // the read then fails
	defer stop()
	s := &stream{conn.(*net.UnixConn), bufio.NewReaderSize(conn, 64<<10)}
	query := url.Values{"stream": {"1"}, "stdin": {"1"}, "stdout": {"1"}, "stderr": {"1"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address("/containers/"+id+"/attach", query), http.NoBody)
	if err == nil {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "tcp")
		err = req.Write(conn)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	resp, err := http.ReadResponse(s.r, req) //nolint:bodyclose // the body is the connection
	if err != nil {
		conn.Close()
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols && resp.StatusCode != http.StatusOK {
		err = readError(resp)
		conn.Close()
		return nil, err
	}
	return s, nil
}
