// Program is a test module for wasip1 that does what its input requests.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

type request struct {
	Do   string `json:"do"`
	Path string `json:"path"`
	MS   int    `json:"ms"`
	Code int    `json:"code"`
	Size int    `json:"size"`
}

func main() {
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail(err)
	}
	var r request
	if err := json.Unmarshal(in, &r); err != nil {
		fail(err)
	}
	out := map[string]any{}
	switch r.Do {
	case "echo":
		out["got"] = json.RawMessage(in)
	case "surroundings":
		out["args"], out["env"] = os.Args, os.Environ()
		_, err := os.ReadDir("/")
		out["root"] = err != nil
	case "sleep":
		t := time.Now()
		time.Sleep(time.Duration(r.MS) * time.Millisecond)
		out["slept"] = time.Since(t).Milliseconds()
	case "exit":
		fmt.Fprintln(os.Stderr, "leaving now")
		os.Exit(r.Code)
	case "allocate":
		b := make([]byte, r.Size)
		for i := range b {
			b[i] = 1
		}
		out["allocated"] = len(b)
	case "read":
		b, err := os.ReadFile(r.Path)
		if err != nil {
			fail(err)
		}
		out["text"] = string(b)
	case "list":
		list, err := os.ReadDir(r.Path)
		if err != nil {
			fail(err)
		}
		names := []string{}
		for _, e := range list {
			names = append(names, e.Name())
		}
		out["names"] = names
	case "stat":
		i, err := os.Stat(r.Path)
		if err != nil {
			fail(err)
		}
		out["size"], out["dir"], out["time"] = i.Size(), i.IsDir(), i.ModTime().UTC().Format(time.RFC3339)
	case "write":
		if err := os.WriteFile(r.Path, []byte("x"), 0o600); err != nil {
			fail(err)
		}
	case "remove":
		if err := os.Remove(r.Path); err != nil {
			fail(err)
		}
	case "panic":
		panic("the program is wrong")
	}
	b, err := json.Marshal(out)
	if err != nil {
		fail(err)
	}
	os.Stdout.Write(b)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(3)
}
