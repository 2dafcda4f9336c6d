"""The looks of the page."""

from typing import Any


def theme(gradio: Any) -> Any:
    """Gradio's own, with the fonts of the reader's system and the colours of ``style.css``."""
    own = {
        "body_background_fill": ("#f2f4f8", "#10141c"),
        "block_background_fill": ("#ffffff", "#171c26"),
        "block_label_text_color": ("#57606a", "#a3adba"),
        "block_title_text_color": ("#57606a", "#a3adba"),
        "border_color_primary": ("#d5dae1", "#2f3846"),
        "input_background_fill": ("#ffffff", "#10141c"),
        "body_text_color": ("#1f2328", "#e6eaf0"),
        "body_text_color_subdued": ("#57606a", "#a3adba"),
    }
    fonts = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}
    default = gradio.themes.Default(primary_hue="indigo", neutral_hue="slate", radius_size="lg", **fonts)
    return default.set(
        **{f"{name}{mode}": pair[i] for name, pair in own.items() for i, mode in enumerate(("", "_dark"))}
    )
