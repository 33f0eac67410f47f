package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"
	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/channels"
	"helix/backend/channels/channelstest"
	"helix/backend/gateway"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

const (
	senders = 20              // who are allowed; their ids start at 1
	pace    = 3 * time.Second // between two messages as the service sees it, so that no sender is too fast
)

// ready is the first line of a process.
type ready struct {
	URL    string
	Secret string
}

// state is what a service holds.
type state struct {
	Rows     int // that count rejected messages
	Rejected int // messages
	Resident int // bytes
}

// clock is the system clock, moved on by each accepted message.
type clock struct{ ahead atomic.Int64 }

func (c *clock) Now() time.Time { return time.Now().UTC().Add(time.Duration(c.ahead.Load())) }

func (*clock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// service is a running channel service with a database of its own.
type service struct {
	*channels.Service
	db    *storage.DB
	ctx   context.Context
	close func()
}

func open(path string, root storage.Root, sessions channels.Sessions) *service {
	db, err := storage.Open(context.Background(), storage.Options{Path: path, Keys: storage.NewKeys(root), Bus: bus.New(), Logger: quiet})
	check(err)
	c := &clock{}
	bus.Subscribe(db.Bus(), func(_ uuid.UUID, m channels.Message) {
		if m.Direction == "in" {
			c.ahead.Add(int64(pace))
		}
	})
	s := &service{Service: channels.New(db, channels.Options{Sessions: sessions, Secrets: storage.NewSecrets(db), Clock: c, Logger: quiet}), db: db}
	s.ctx = identity.With(context.Background(), identity.Identity{User: db.LocalUser().ID, Session: uuid.New(), Scopes: identity.Admin.Closed(), Client: identity.ClientTerminal})
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	s.close = func() {
		cancel()
		check(<-ended)
		check(db.Close())
	}
	return s
}

var quiet = slog.New(slog.DiscardHandler)

// add adds a channel and waits until it runs.
func (s *service) add(kind, url string) channels.AddResult {
	p := channels.AddParams{Kind: kind, Name: "Phone", Config: channels.Config{URL: url}}
	if kind == "telegram" {
		p.Token = channelstest.Token
	}
	added, err := s.Add(s.ctx, p)
	check(err)
	for i := range senders {
		_, err := s.Allow(s.ctx, channels.AllowParams{ID: added.Channel.ID, SenderID: strconv.Itoa(i + 1)})
		check(err)
	}
	for c := added.Channel; c.State != channels.Connected; {
		time.Sleep(time.Millisecond)
		c, err = s.Get(s.ctx, channels.IDParams{ID: added.Channel.ID})
		check(err)
	}
	return added
}

func (s *service) count(query string) (n int) {
	check(s.db.Read(s.ctx, func(tx *storage.Tx) error { return tx.QueryRow(query).Scan(&n) }))
	return n
}

func temporary() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "helix-bench-channels-")
	check(err)
	return dir, func() { check(os.RemoveAll(dir)) }
}

// serve runs a service with one channel, and for a webhook a gateway, until the input ends. Each line
// of the input asks for the state.
func serve(kind, url string) {
	dir, remove := temporary()
	defer remove()
	s := open(filepath.Join(dir, "helix.db"), storagetest.NewRoot(), &channelstest.Agent{})
	defer s.close()
	added := s.add(kind, url)
	out := ready{Secret: added.Secret}
	if kind == "webhook" {
		g := gateway.New(gateway.NewAPI(), gateway.Options{Addr: "127.0.0.1:0", Bus: s.db.Bus(), Logger: quiet})
		g.RouteOwn("POST", "/hooks/", gateway.Write, false, s.HookOwner, s.ServeHook)
		ctx, cancel := context.WithCancel(s.ctx)
		check(g.Listen(ctx))
		ended := make(chan error, 1)
		go func() { ended <- g.Run(ctx) }()
		defer func() { cancel(); check(<-ended) }()
		out.URL = strings.TrimSuffix(g.URL(), "/") + "/hooks/" + added.Channel.ID.String()
	}
	printJSON(out)
	for line := make([]byte, 1); ; {
		if _, err := os.Stdin.Read(line); err != nil {
			if err != io.EOF {
				check(err)
			}
			return
		}
		_, err := s.Rejected(s.ctx, channels.RejectedParams{}) // stores what is counted in memory
		check(err)
		printJSON(state{s.count(`SELECT count(*) FROM channel_rejections`), s.count(`SELECT coalesce(sum(count), 0) FROM channel_rejections`), resident()})
	}
}

func printJSON(v any) {
	b, err := json.Marshal(v)
	check(err)
	fmt.Println(string(b))
}

// resident returns the resident bytes of this process without what the Go heap has free.
func resident() int {
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	check(err)
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	check(err)
	return pages * os.Getpagesize()
}

// echo is the peer: a bot of go-telegram/bot that answers at once and stores nothing.
func echo(url string) {
	answer := func(ctx context.Context, b *bot.Bot, u *models.Update) {
		_, err := b.SendMessage(ctx, &bot.SendMessageParams{ChatID: u.Message.Chat.ID, Text: "Echo: " + u.Message.Text})
		if ctx.Err() == nil {
			check(err)
		}
	}
	b, err := bot.New(channelstest.Token, bot.WithServerURL(url), bot.WithDefaultHandler(answer), bot.WithErrorsHandler(func(error) {}))
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // only its end matters
		cancel()
	}()
	printJSON(ready{})
	b.Start(ctx)
}
