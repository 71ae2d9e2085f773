"""The style sheet, generated from the colours: shapes and spacing of everything the style draws plainly.

Combo boxes, spin boxes, check boxes and sliders are left to the Fusion style, which takes its
colours from the palette; restyling them would lose their arrows and marks.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtGui import QColor

if TYPE_CHECKING:
    from app.ui.theme import Colors

_SHEET = """
QMainWindow, QDialog {{ background: {window}; }}
QMainWindow::separator {{ background: {window}; width: 8px; height: 8px; }}
QMainWindow::separator:hover {{ background: {accent_soft}; }}
QToolTip {{ background: {raised}; color: {text}; border: 1px solid {border}; padding: 6px 8px; }}

QLabel[role="title"] {{ font-size: {title}pt; font-weight: 600; }}
QLabel[role="heading"] {{ font-size: {heading}pt; font-weight: 600; }}
QLabel[role="strong"] {{ font-weight: 600; }}
QLabel[role="muted"] {{ color: {muted}; }}
QLabel[role="small"] {{ color: {muted}; font-size: {small}pt; }}
QLabel[role="figure"] {{ font-size: {figure}pt; font-weight: 600; }}
QLabel[role="warning"] {{ color: {warning}; }}
QLabel[role="error"] {{ color: {error}; }}

QFrame[role="card"] {{ background: {surface}; border: 1px solid {border}; border-radius: 10px; }}
QFrame[role="popup"] {{ background: {window}; border: 1px solid {border_strong}; }}
QFrame[role="code"] {{ background: {code}; border: 1px solid {border}; border-radius: 10px; }}
QFrame[role="bubble"] {{ background: {accent_soft}; border: none; border-radius: 12px; }}
QFrame[role="composer"] {{ background: {surface}; border: 1px solid {border_strong}; border-radius: 14px; }}
QFrame[role="composer-focus"] {{ background: {surface}; border: 1px solid {accent}; border-radius: 14px; }}
QFrame[role="banner-error"] {{ background: {error_soft}; border: 1px solid {error_line};
    border-radius: 10px; }}
QFrame[role="banner-warning"] {{ background: {warning_soft}; border: 1px solid {warning_line};
    border-radius: 10px; }}
QFrame[role="sidebar"] {{ background: {surface}; border: none; border-right: 1px solid {border}; }}

QPushButton {{ background: {surface}; color: {text}; border: 1px solid {border_strong}; border-radius: 8px;
    padding: 7px 16px; min-height: 18px; }}
QPushButton:hover {{ background: {raised}; }}
QPushButton:pressed {{ background: {border}; }}
QPushButton:focus {{ border: 1px solid {accent}; }}
QPushButton:disabled {{ color: {disabled}; border-color: {border}; background: {window}; }}
QPushButton[kind="primary"], QPushButton:default {{ background: {accent}; color: {on_accent};
    border: 1px solid {accent}; font-weight: 600; }}
QDialogButtonBox {{ dialogbuttonbox-buttons-have-icons: 0; }}
QMessageBox QPushButton {{ font-weight: 600; }}
QPushButton[kind="primary"]:hover, QPushButton:default:hover {{ background: {accent_hover}; }}
QPushButton[kind="primary"]:focus, QPushButton:default:focus {{ border: 1px solid {text}; }}
QPushButton[kind="primary"]:disabled {{ background: {raised}; color: {disabled}; border-color: {raised}; }}
QPushButton[kind="danger"] {{ color: {error}; border-color: {error_line}; }}
QPushButton[kind="danger"]:hover {{ background: {error_soft}; }}
QPushButton[kind="quiet"] {{ background: transparent; border: 1px solid transparent; color: {muted};
    padding: 4px 10px; }}
QPushButton[kind="quiet"]:hover {{ background: {raised}; color: {text}; }}
QPushButton[kind="quiet"]:focus {{ border: 1px solid {accent}; }}
QPushButton[kind="quiet"]:disabled {{ color: {disabled}; }}
QPushButton[kind="suggestion"] {{ text-align: left; padding: 12px 16px; border-radius: 10px;
    border: 1px solid {border}; }}
QPushButton[kind="suggestion"]:hover {{ border-color: {accent}; background: {surface}; }}
QPushButton[kind="suggestion"]:focus {{ border-color: {accent}; }}
QPushButton[kind="suggestion"]:disabled {{ color: {disabled}; background: {window}; }}
QToolButton {{ border: 1px solid transparent; border-radius: 6px; padding: 4px; }}
QToolButton:hover {{ background: {raised}; }}
QToolButton:focus {{ border: 1px solid {accent}; }}

QComboBox, QAbstractSpinBox {{ min-height: 26px; }}
QPlainTextEdit, QTextBrowser {{ selection-background-color: {accent}; selection-color: {on_accent}; }}
QPlainTextEdit[role="bare"], QTextBrowser[role="bare"] {{ background: transparent; border: none;
    padding: 0; }}
QScrollArea[role="bare"], QScrollArea[role="bare"] > QWidget > QWidget[role="page"] {{
    background: transparent; border: none; }}

QListView {{ background: {surface}; border: 1px solid {border}; border-radius: 8px; outline: none; }}
QListView::item {{ padding: 8px; border-radius: 6px; }}
QListView::item:hover {{ background: {raised}; }}
QListView::item:selected {{ background: {accent_soft}; color: {text}; }}
QListView QLineEdit {{ background: {surface}; border: 1px solid {accent}; border-radius: 6px; padding: 0 8px; }}
QListView[role="bare"] {{ background: transparent; border: none; }}

QTableView {{ background: {surface}; alternate-background-color: {code}; border: 1px solid {border};
    border-radius: 8px; outline: none; selection-background-color: {accent_soft}; selection-color: {text}; }}
QTableView::item {{ padding: 0 2px; border: none; }}
QTableView::item:focus {{ border: 1px solid {accent}; }}
QTableView::item:selected {{ background: {accent_soft}; color: {text}; }}
QHeaderView {{ background: transparent; }}
QHeaderView::section {{ background: {surface}; color: {muted}; border: none; border-bottom: 1px solid {border};
    padding: 4px 2px; }}

QScrollBar:vertical {{ background: transparent; width: 10px; margin: 2px; }}
QScrollBar:horizontal {{ background: transparent; height: 10px; margin: 2px; }}
QScrollBar::handle {{ background: {scroll}; border-radius: 3px; min-height: 32px; min-width: 32px; }}
QScrollBar::handle:hover {{ background: {muted}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}

QProgressBar {{ background: {raised}; border: none; border-radius: 4px; min-height: 8px; max-height: 8px;
    text-align: center; color: transparent; }}
QProgressBar::chunk {{ background: {accent}; border-radius: 4px; }}

QMenuBar {{ background: {window}; padding: 2px 4px; }}
QMenuBar::item {{ padding: 6px 10px; border-radius: 6px; background: transparent; }}
QMenuBar::item:selected {{ background: {raised}; }}
QMenu {{ background: {surface}; border: 1px solid {border}; padding: 6px; }}
QMenu::item {{ padding: 7px 28px 7px 16px; border-radius: 6px; }}
QMenu::item:selected {{ background: {accent_soft}; color: {text}; }}
QMenu::item:disabled {{ color: {disabled}; }}
QMenu::separator {{ height: 1px; background: {border}; margin: 6px 8px; }}

QDockWidget {{ color: {text}; }}
QDockWidget::title {{ background: {window}; padding: 8px 10px; text-align: left; }}
QDockWidget > QWidget {{ background: {surface}; }}
QTabBar::tab {{ padding: 8px 14px; color: {muted}; border: none; border-bottom: 2px solid transparent;
    background: transparent; }}
QTabBar::tab:selected {{ color: {text}; border-bottom: 2px solid {accent}; }}
QTabBar::tab:hover {{ color: {text}; }}
QStatusBar {{ background: {window}; color: {muted}; border-top: 1px solid {border}; min-height: 28px; }}
QStatusBar::item {{ border: none; }}
QStatusBar QLabel {{ color: {muted}; padding: 2px 8px; }}
"""

_SIZES = {"title": 2.0, "heading": 1.2, "figure": 1.4, "small": 0.9}
"""Size of a role's text, as a share of plain text's: the system's font may be twice the usual one."""


def style_sheet(colors: "Colors", mix: Callable[[QColor, QColor, float], QColor], points: float = 10.0) -> str:
    """The whole sheet in `colors` for text of `points`; `mix` blends two colours."""
    names = {
        "window": colors.window,
        "surface": colors.surface,
        "raised": colors.raised,
        "text": colors.text,
        "muted": colors.muted_text,
        "disabled": mix(colors.muted_text, colors.window, 0.45),
        "accent": colors.accent,
        "accent_hover": mix(colors.accent, colors.text, 0.15),
        "accent_soft": mix(colors.surface, colors.accent, 0.13),
        "code": mix(colors.surface, colors.raised, 0.35),
        "on_accent": colors.on_accent,
        "border": colors.border,
        "border_strong": mix(colors.border, colors.muted_text, 0.3),
        "scroll": mix(colors.border, colors.muted_text, 0.4),
        "warning": colors.warning,
        "warning_soft": mix(colors.surface, colors.warning, 0.1),
        "warning_line": mix(colors.surface, colors.warning, 0.45),
        "error": colors.error,
        "error_soft": mix(colors.surface, colors.error, 0.08),
        "error_line": mix(colors.surface, colors.error, 0.45),
    }
    sizes = {role: f"{points * share:g}" for role, share in _SIZES.items()}
    return _SHEET.format(**{name: color.name() for name, color in names.items()}, **sizes)
