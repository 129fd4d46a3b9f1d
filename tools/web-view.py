# A web view as Capacitor has it on iOS: WebKitGTK, whose pages of the scheme `capacitor` are the files of a folder.
#
#   web-view.py FOLDER   opens capacitor://localhost/index.html; prints the text that the page posts to its handler `test`, and ends
import mimetypes
import os
import sys

import gi

gi.require_version('Gtk', '3.0')
gi.require_version('WebKit2', '4.1')
from gi.repository import Gio, Gtk, WebKit2

folder = os.path.realpath(sys.argv[1])


def serve(request):
    path = os.path.realpath(os.path.join(folder, request.get_path().lstrip('/')))
    if not path.startswith(folder + os.sep) or not os.path.isfile(path):
        request.finish_error(Gio.io_error_quark(), Gio.IOErrorEnum.NOT_FOUND, 'no such file')
        return
    kind = mimetypes.guess_type(path)[0] or 'application/octet-stream'
    request.finish(Gio.File.new_for_path(path).read(), os.path.getsize(path), kind)


def posted(_manager, result):
    print(result.get_js_value().to_string(), flush=True)
    Gtk.main_quit()


context = WebKit2.WebContext.new_ephemeral()
context.register_uri_scheme('capacitor', serve)
# As WKWebView treats the schemes that an app serves: their pages have an origin, to which CORS applies.
context.get_security_manager().register_uri_scheme_as_secure('capacitor')
context.get_security_manager().register_uri_scheme_as_cors_enabled('capacitor')
view = WebKit2.WebView.new_with_context(context)
view.get_settings().set_enable_write_console_messages_to_stdout(False)
handlers = view.get_user_content_manager()
handlers.connect('script-message-received::test', posted)
handlers.register_script_message_handler('test')
window = Gtk.OffscreenWindow()
window.add(view)
window.show_all()
view.load_uri('capacitor://localhost/index.html')
Gtk.main()
