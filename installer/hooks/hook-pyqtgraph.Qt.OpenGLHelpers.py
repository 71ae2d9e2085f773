"""PyInstaller: curves are painted without OpenGL here, but pyqtgraph imports these by name whatever it paints with."""

hiddenimports = ["PySide6.QtOpenGL", "PySide6.QtOpenGLWidgets"]
