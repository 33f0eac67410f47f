/* Test shim, loaded with LD_PRELOAD: makes the web view of the unmodified program one that
 * WebKitWebDriver may drive. Whether a view is controlled by automation is fixed when it is
 * made, so the constructor that Wails calls is the place to step in. */
#include <webkit2/webkit2.h>

static WebKitWebView *controlled_view;

static WebKitWebView *give_view(WebKitAutomationSession *session, gpointer unused)
{
	(void)session, (void)unused;
	return controlled_view;
}

static void session_started(WebKitWebContext *context, WebKitAutomationSession *session, gpointer unused)
{
	(void)context, (void)unused;
	WebKitApplicationInfo *info = webkit_application_info_new();
	webkit_application_info_set_name(info, "helix-desktop");
	webkit_application_info_set_version(info, 1, 0, 0);
	webkit_automation_session_set_application_info(session, info);
	webkit_application_info_unref(info);
	g_signal_connect(session, "create-web-view", G_CALLBACK(give_view), NULL);
}

GtkWidget *webkit_web_view_new_with_user_content_manager(WebKitUserContentManager *manager)
{
	WebKitWebContext *context = webkit_web_context_get_default();
	webkit_web_context_set_automation_allowed(context, TRUE);
	g_signal_connect(context, "automation-started", G_CALLBACK(session_started), NULL);
	controlled_view = WEBKIT_WEB_VIEW(g_object_new(WEBKIT_TYPE_WEB_VIEW, "web-context", context,
		"user-content-manager", manager, "is-controlled-by-automation", TRUE, NULL));
	return GTK_WIDGET(controlled_view);
}
