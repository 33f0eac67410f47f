package traytest

import (
	"sync/atomic"
	"testing"

	"github.com/godbus/dbus/v5"
)

const (
	notifierName = "org.freedesktop.Notifications"
	notifierPath = dbus.ObjectPath("/org/freedesktop/Notifications")
)

// Notification is one that a program showed.
type Notification struct {
	ID          uint32
	Title, Body string
	Actions     []string // id and label of each
}

// Notifier is the notification service of a desktop.
type Notifier struct {
	conn *dbus.Conn
	last atomic.Uint32
	// Shown receives what programs show.
	Shown chan Notification
}

// StartNotifier shows notifications on the bus at addr until the test ends.
func StartNotifier(t testing.TB, addr string) *Notifier {
	t.Helper()
	conn, err := dbus.Connect(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	n := &Notifier{conn: conn, Shown: make(chan Notification, 32)}
	if err := conn.Export(n, notifierPath, notifierName); err != nil {
		t.Fatal(err)
	}
	if r, err := conn.RequestName(notifierName, dbus.NameFlagDoNotQueue); err != nil || r != dbus.RequestNameReplyPrimaryOwner {
		t.Fatalf("the notifier's name: %v, %v", r, err)
	}
	return n
}

// Notify is called by programs.
func (n *Notifier) Notify(_ string, _ uint32, _, title, body string, actions []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	id := n.last.Add(1)
	n.Shown <- Notification{ID: id, Title: title, Body: body, Actions: actions}
	return id, nil
}

// CloseNotification is part of the interface.
func (*Notifier) CloseNotification(uint32) *dbus.Error { return nil }

// GetCapabilities is part of the interface.
func (*Notifier) GetCapabilities() ([]string, *dbus.Error) { return []string{"actions", "body"}, nil }

// GetServerInformation is part of the interface.
func (*Notifier) GetServerInformation() (name, vendor, version, spec string, err *dbus.Error) {
	return "traytest", "Helix", "1", "1.2", nil
}

// Click clicks a notification.
func (n *Notifier) Click(id uint32) error {
	return n.conn.Emit(notifierPath, notifierName+".ActionInvoked", id, "default")
}
