// Command channels measures backend/channels against its peers in one run: an echo bot of
// go-telegram/bot on the same test server, and a Node server that verifies the signature and appends
// to a file with fsync. Services and peers are processes of their own; the test server and the clients
// are here. It prints one line per measurement: name, value, unit, ratio to the peer, peer, separated
// by tabs. -only runs the measures whose name contains a text.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"helix/backend/channels/channelstest"
	"helixbench/figures"
)

func main() {
	role := flag.String("role", "", "internal: serve, echo")
	messages := flag.Int("messages", 500, "over Telegram and to the webhook, each")
	rejected := flag.Int("rejected", 10_000, "messages of strangers")
	waiting := flag.Int("backlog", 1000, "messages that wait while Helix restarts, at most 1,000")
	only := flag.String("only", "", "run the measures whose name contains this")
	flag.Parse()
	switch *role {
	case "serve":
		serve(flag.Arg(0), flag.Arg(1))
		return
	case "echo":
		echo(flag.Arg(0))
		return
	}
	for _, m := range []struct {
		name string
		fn   func(n int)
		n    int
	}{{"telegram", telegram, *messages}, {"webhook", webhook, *messages}, {"rejected", reject, *rejected}, {"backlog", backlog, *waiting}} {
		if strings.Contains(m.name, *only) {
			m.fn(m.n)
		}
	}
}

func check(err error) {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "%s:%d: %v\n", filepath.Base(file), line, err)
		os.Exit(1)
	}
}

func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[min(len(v)-1, int(q*float64(len(v))))]
}

func milliseconds(began time.Time) float64 { return float64(time.Since(began).Microseconds()) / 1000 }

// program is a process that serves until its input ends.
type program struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(name string, args ...string) *program {
	p := &program{cmd: exec.Command(name, args...)}
	p.cmd.Stderr = os.Stderr
	var err error
	p.in, err = p.cmd.StdinPipe()
	check(err)
	out, err := p.cmd.StdoutPipe()
	check(err)
	check(p.cmd.Start())
	p.out = bufio.NewReader(out)
	return p
}

func self(args ...string) *program {
	exe, err := os.Executable()
	check(err)
	return start(exe, args...)
}

// read decodes the next line of the program.
func (p *program) read(into any) {
	line, err := p.out.ReadBytes('\n')
	check(err)
	check(json.Unmarshal(line, into))
}

// ask returns what the program holds now.
func (p *program) ask() (s state) {
	_, err := p.in.Write([]byte("\n"))
	check(err)
	p.read(&s)
	return s
}

func (p *program) stop() {
	check(p.in.Close())
	check(p.cmd.Wait())
}

// telegram measures the time from a message to the reply to it, alternating with the peer.
func telegram(n int) {
	ours, theirs := channelstest.NewTelegram(), channelstest.NewTelegram()
	defer ours.Close()
	defer theirs.Close()
	helix, bot := self("-role", "serve", "telegram", ours.URL), self("-role", "echo", theirs.URL)
	defer helix.stop()
	defer bot.stop()
	helix.read(new(ready))
	bot.read(new(ready))
	once := func(tg *channelstest.Telegram, i int) float64 {
		text := fmt.Sprint("message ", i)
		began := time.Now()
		tg.Say(int64(i%senders+1), text)
		for m := range tg.Sent() {
			if m.Text == "Echo: "+text {
				break
			}
		}
		return milliseconds(began)
	}
	a, b := make([]float64, n), make([]float64, n)
	for i := range n {
		a[i], b[i] = once(ours, i), once(theirs, i)
	}
	x, y := quantile(a, 0.5), quantile(b, 0.5)
	figures.Print("telegram.reply.p50", x, "ms", x/y, "go-telegram/bot, echo")
	figures.Print("telegram.reply.p95", quantile(a, 0.95), "ms", quantile(a, 0.95)/quantile(b, 0.95), "go-telegram/bot, echo")
	figures.Print("telegram.reply.p50, more than 1.3 × the peer", x-1.3*y, "ms", 0, "")
}

// reject measures messages of strangers over Telegram.
func reject(n int) {
	tg := channelstest.NewTelegram()
	defer tg.Close()
	helix := self("-role", "serve", "telegram", tg.URL)
	defer helix.stop()
	helix.read(new(ready))
	say := func(first, n int) {
		var last int64
		for i := range n {
			last = tg.Push(map[string]any{"message": channelstest.Private(int64(first+i%1000), "Hello")})
		}
		for tg.Confirmed() < last {
			time.Sleep(time.Millisecond)
		}
	}
	say(1_000_000, n/10) // opens connections and fills caches
	before := helix.ask()
	began := time.Now()
	say(2_000_000, n)
	took := time.Since(began).Seconds()
	after := helix.ask()
	if got := after.Rejected - before.Rejected; got != n {
		check(fmt.Errorf("%d of %d rejected messages were counted", got, n))
	}
	figures.Print("rejected."+strconv.Itoa(n), took, "s", 0, "")
	figures.Print("rejected.rows", float64(after.Rows), "rows", 0, "")
	figures.Print("rejected.memory", float64(after.Resident-before.Resident)/(1<<20), "MiB", 0, "")
}
