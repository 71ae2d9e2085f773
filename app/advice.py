"""What the user should do next for each error code: the words both edges show.

Imports `errors` only; imported by the command line and the window (which translates the texts).
"""

from app.errors import ErrorCode

ADVICE: dict[ErrorCode, str] = {
    ErrorCode.BAD_USAGE: "Check the value and try again.",
    ErrorCode.FILE_MISSING: "Check the path, or choose the model file again.",
    ErrorCode.FILE_UNREADABLE: "Choose another file, or give your user permission to read this one.",
    ErrorCode.NOT_GGUF: "Choose a model in the GGUF format; a name that ends in .gguf alone does not make a file one.",
    ErrorCode.MODEL_DAMAGED: "Download or copy the file again: it is incomplete or changed.",
    ErrorCode.SHARD_MISSING: "Put every part of the model into the same folder, under its original name.",
    ErrorCode.ARCHITECTURE_UNKNOWN: "Choose another model, or update the app: this engine does not know it.",
    ErrorCode.MODEL_UNSUPPORTED: "Choose another model or another quantisation of it.",
    ErrorCode.FOLDER_NOT_WRITABLE: "Choose a folder that your user may write to.",
    ErrorCode.DISK_FULL: "Free some disk space and try again.",
    ErrorCode.OUT_OF_MEMORY: "Close other programs, or use a smaller plan: less context, more experts on the CPU.",
    ErrorCode.DEVICE_MISSING: "Choose one of the devices that the probe lists, or 'none' for the CPU.",
    ErrorCode.CONTEXT_FULL: "Ask something shorter, start a new conversation, or load the model with a larger context "
    "where it can have one.",
    ErrorCode.ENGINE_MISSING: "Reinstall the app: its engine is missing or damaged.",
    ErrorCode.ENGINE_CRASHED: "Load again; if it repeats, use a smaller plan or no GPU.",
    ErrorCode.ENGINE_PROTOCOL: "Reinstall the app: window and engine are of different versions.",
    ErrorCode.ENGINE_FAILED: "Try again; the engine's log says more.",
    ErrorCode.CANCELLED: "It was stopped as you asked.",
    ErrorCode.STORE_UNREADABLE: "Close other windows of this app, or update it; the file was left as it is.",
    ErrorCode.NO_NETWORK: "Check the connection and the proxy in the system's settings, then try again.",
    ErrorCode.UPDATES_UNKNOWN: "Look for a newer version where you got this one.",
    ErrorCode.FEED_UNREADABLE: "Try again later; if it repeats, look for a newer version where you got this one.",
    ErrorCode.UPDATE_UNTRUSTED: "Do not install it. Try again later, or look where you got this version.",
}


def what_to_do(code: ErrorCode) -> str:
    """One sentence that says what to do next about `code`."""
    return ADVICE[code]
