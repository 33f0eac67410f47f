package tray

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"helix/backend/config"
)

const (
	watcherName = "org.kde.StatusNotifierWatcher"
	watcherPath = dbus.ObjectPath("/StatusNotifierWatcher")
)

// host follows whether some panel shows status icons.
type host struct {
	conn    *dbus.Conn
	changed chan struct{}
	ended   chan struct{}
	once    sync.Once
}

// watchHost connects to the session bus; appeared is called when a panel has started.
func watchHost(appeared func(*host)) (*host, error) {
	if !config.SessionBus() {
		return nil, errors.New("this desktop session has none")
	}
	conn, err := dbus.ConnectSessionBus()
	if err != nil {
		return nil, err
	}
	h := &host{conn: conn, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	err = errors.Join(
		conn.AddMatchSignal(dbus.WithMatchSender("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, watcherName)),
		conn.AddMatchSignal(dbus.WithMatchInterface(watcherName), dbus.WithMatchMember("StatusNotifierHostRegistered")),
		conn.AddMatchSignal(dbus.WithMatchInterface(watcherName), dbus.WithMatchMember("StatusNotifierHostUnregistered")),
	)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go func() {
		defer close(h.ended)
		for s := range signals { // the library closes it with the connection
			if len(s.Body) == 3 && s.Body[2] != "" && s.Name == "org.freedesktop.DBus.NameOwnerChanged" {
				appeared(h)
			}
			h.note()
		}
		h.note()
	}()
	return h, nil
}

func (h *host) note() {
	select {
	case h.changed <- struct{}{}:
	default: // a change is already waiting
	}
}

func (h *host) changes() <-chan struct{} {
	if h == nil {
		return nil
	}
	return h.changed
}

// present asks the bus, because a panel may have ended without a word.
func (h *host) present() bool {
	if h == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var owned bool
	if err := h.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, watcherName).Store(&owned); err != nil || !owned {
		return false
	}
	var v dbus.Variant
	err := h.conn.Object(watcherName, watcherPath).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, watcherName, "IsStatusNotifierHostRegistered").Store(&v)
	registered, ok := v.Value().(bool)
	return err == nil && ok && registered
}

// exported reports whether the icon on the connection called name can be read.
func (h *host) exported(name string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return h.conn.Object(name, "/StatusNotifierItem").CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, "org.kde.StatusNotifierItem", "Menu").Err == nil
}

func (h *host) close() (err error) {
	h.once.Do(func() {
		err = h.conn.Close()
		<-h.ended
	})
	return err
}
