"""``nbdist.SummaryWriter``: the methods and arguments of ``torch.utils.tensorboard.SummaryWriter``.

A program that writes for TensorBoard shows its curves with one changed line, without the tensorboard package.
Scalars are recorded as by ``nbdist.log``, all else as records of VisualDL, both at once: ``flush`` and
``close`` do nothing, and a writer works after them.
"""

from __future__ import annotations

import os

from nbdist.worker import arrays, media, metrics_log
from nbdist.worker.files import say_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from nbdist.worker.media import Numbers, Time


class SummaryWriter:
    """A writer of one rank's curves, which outside a run writes nothing.

    Its records are in the run's directory. It makes ``log_dir``, since programs put files of their own there;
    the tags of a process's second writer, to another directory, begin with that directory's name
    ("val/loss"). ``purge_step``, ``max_queue``, ``flush_secs`` and ``filename_suffix`` have no effect.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        own = os.path.join(os.environ.get("NBDIST_RANK_DIR", "runs"), f"summary{comment}")
        self.log_dir = os.fspath(log_dir) if log_dir else own
        self._prefix = metrics_log.prefix_of(os.path.abspath(self.log_dir) if log_dir else comment)
        if metrics_log.rank_file() is not None:
            try:
                os.makedirs(self.log_dir, exist_ok=True)
            except OSError:
                return

    def get_logdir(self) -> str:
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: object,
        global_step: object = None,
        walltime: Time = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        metrics_log.log_at(walltime, global_step, {self._prefix + tag: scalar_value})

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, object],
        global_step: object = None,
        walltime: Time = None,
    ) -> None:
        """Record a curve for each entry, as ``main_tag/entry``."""
        scalars = {f"{self._prefix}{main_tag}/{tag}": value for tag, value in tag_scalar_dict.items()}
        metrics_log.log_at(walltime, global_step, scalars)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, object],
        metric_dict: Mapping[str, object],
        hparam_domain_discrete: object = None,
        run_name: str | None = None,
        global_step: object = None,
    ) -> None:
        metrics_log.log_hparams(hparam_dict, metric_dict, step=global_step)

    def add_histogram(
        self,
        tag: str,
        values: object,
        global_step: object = None,
        bins: int | str | Numbers = "tensorflow",
        walltime: Time = None,
        max_bins: int | None = None,
    ) -> None:
        tag = self._prefix + tag
        media.log_histogram(tag, values, global_step, bins=bins, max_bins=max_bins, walltime=walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: float,
        sum: float,
        sum_squares: float,
        bucket_limits: Numbers,
        bucket_counts: Numbers,
        global_step: object = None,
        walltime: Time = None,
    ) -> None:
        """Record counted buckets. ``bucket_limits`` are their upper ends; the first one begins at ``min``."""
        edges = [min, *bucket_limits]
        media.log_bins(self._prefix + tag, bucket_counts, edges, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: object,
        global_step: object = None,
        walltime: Time = None,
        dataformats: str | None = "CHW",
    ) -> None:
        media.write_image(self._prefix + tag, img_tensor, global_step, dataformats, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: object,
        global_step: object = None,
        walltime: Time = None,
        dataformats: str = "NCHW",
    ) -> None:
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: object,
        box_tensor: object,
        global_step: object = None,
        walltime: Time = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Sequence[str] | None = None,
    ) -> None:
        """Show the image with the outlines of its boxes, neither rescaled nor labelled."""
        if metrics_log.rank_file() is not None:
            pixels = arrays.outline(img_tensor, box_tensor, dataformats)
            self.add_image(tag, pixels, global_step, walltime, "HWC")

    def add_figure(
        self, tag: str, figure: Any, global_step: object = None, close: bool = True, walltime: Time = None
    ) -> None:
        several = isinstance(figure, (list, tuple))
        figures = figure if several else (figure,)
        if several and metrics_log.rank_file() is not None:
            pixels = [arrays.figure_pixels(each) for each in figures]
            self.add_image(tag, pixels, global_step, walltime, "NHWC")
        elif not several:
            self.add_image(tag, figure, global_step, walltime, None)
        if close:
            for each in figures:
                arrays.close_figure(each)

    def add_audio(
        self,
        tag: str,
        snd_tensor: object,
        global_step: object = None,
        sample_rate: int = 44100,
        walltime: Time = None,
    ) -> None:
        tag = self._prefix + tag
        media.log_audio(tag, snd_tensor, global_step, sample_rate=sample_rate, walltime=walltime)

    def add_text(self, tag: str, text_string: str, global_step: object = None, walltime: Time = None) -> None:
        media.log_text(self._prefix + tag, text_string, global_step, walltime=walltime)

    def add_embedding(
        self,
        mat: object,
        metadata: object = None,
        label_img: object = None,
        global_step: object = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        if label_img is not None:
            _not_shown("pictures of an embedding's points")
        media.log_embedding(self._prefix + tag, mat, metadata, global_step, header=metadata_header)

    def add_pr_curve(
        self,
        tag: str,
        labels: object,
        predictions: object,
        global_step: object = None,
        num_thresholds: int = 127,
        weights: object = None,
        walltime: Time = None,
    ) -> None:
        given: dict[str, Any] = {"num_thresholds": num_thresholds, "weights": weights, "walltime": walltime}
        media.log_pr_curve(self._prefix + tag, labels, predictions, global_step, **given)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Numbers,
        false_positive_counts: Numbers,
        true_negative_counts: Numbers,
        false_negative_counts: Numbers,
        precision: Numbers,
        recall: Numbers,
        global_step: object = None,
        num_thresholds: int = 127,
        weights: object = None,
        walltime: Time = None,
    ) -> None:
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        media.log_pr_counts(self._prefix + tag, counts, (precision, recall), global_step, walltime)

    def add_tensor(self, tag: str, tensor: object, global_step: object = None, walltime: Time = None) -> None:
        _not_shown("tensors (add_tensor)")

    def add_video(
        self, tag: str, vid_tensor: object, global_step: object = None, fps: float = 4, walltime: Time = None
    ) -> None:
        _not_shown("videos (add_video)")

    def add_mesh(
        self,
        tag: str,
        vertices: object,
        colors: object = None,
        faces: object = None,
        config_dict: object = None,
        global_step: object = None,
        walltime: Time = None,
    ) -> None:
        _not_shown("meshes (add_mesh)")

    def add_graph(
        self,
        model: object,
        input_to_model: object = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        _not_shown("graphs of torch's models (add_graph)")

    def add_onnx_graph(self, prototxt: object) -> None:
        _not_shown("graphs (add_onnx_graph)")

    def add_custom_scalars_multilinechart(
        self, tags: object, category: str = "default", title: str = "untitled"
    ) -> None:
        _not_shown("custom layouts (add_custom_scalars…)")

    add_custom_scalars_marginchart = add_custom_scalars_multilinechart

    def add_custom_scalars(self, layout: object) -> None:
        _not_shown("custom layouts (add_custom_scalars…)")

    def flush(self) -> None:
        """Do nothing: everything is on disk already."""

    def close(self) -> None:
        """Do nothing: no file is open."""

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
        self.close()


def _not_shown(what: str) -> None:
    if metrics_log.rank_file() is not None:
        say_once(f"VisualDL shows no {what}; the program goes on")
